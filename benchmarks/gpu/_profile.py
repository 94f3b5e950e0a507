"""python -m benchmarks.gpu._profile LIBRARY FORM OUTDIR"""
import sys, gzip, json, glob, collections, tempfile, time, os
from benchmarks.gpu import gpt
lib, form, out = sys.argv[1:4]
size = gpt.SMALL if "small" in sys.argv else gpt.FULL
t = {"jax": gpt.jax_training, "gradtape": gpt.gradtape_training}[lib](size, form == "fused")
losses = [float(t.step()) for _ in range(12)]
print(lib, form, "losses", " ".join(f"{x:.4f}" for x in losses))
import jax
s=time.perf_counter()
for _ in range(8): l=t.step()
float(l); print(f"{lib}.{form} {(time.perf_counter()-s)/8*1e3:.2f} ms")
hs=[]
for _ in range(5):
    s=time.perf_counter(); l=t.step(); hs.append(time.perf_counter()-s); float(l)
print("host ms", [round(h*1e3,2) for h in hs])
d = tempfile.mkdtemp()
with jax.profiler.trace(d, create_perfetto_trace=True):
    for _ in range(3): l = t.step()
    float(l)
f = glob.glob(d + "/**/perfetto_trace.json.gz", recursive=True)[0]
data = json.load(gzip.open(f))
ev = data["traceEvents"] if isinstance(data, dict) else data
procs = {e["pid"]: e["args"].get("name") for e in ev if e.get("ph") == "M" and e.get("name") == "process_name"}
threads = {(e["pid"], e["tid"]): e["args"].get("name") for e in ev if e.get("ph") == "M" and e.get("name") == "thread_name"}
tot = collections.Counter(); n = collections.Counter()
for e in ev:
    if e.get("ph") == "X" and "GPU" in str(procs.get(e["pid"])) and "Stream" in str(threads.get((e["pid"], e["tid"]))):
        hlo = (e.get("args") or {}).get("hlo_op") or ""
        tot[(e["name"], hlo)] += e["dur"] / 3; n[(e["name"], hlo)] += 1
with open(f"{out}/{lib}.{form}.prof.txt", "w") as o:
    o.write(f"{procs} {set(threads.values())}\n")
    o.write(f"total {sum(tot.values())/1e3:.3f} ms\n")
    for (k, h), v in tot.most_common():
        o.write(f"{v:10.1f} us x{n[k,h]/3:g} {h} | {k[:140]}\n")
print("kernel total", sum(tot.values())/1e3)
open(f"{out}/{lib}.{form}.hlo.txt","w").write(t.compiled().as_text())
