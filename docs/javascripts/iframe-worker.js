// Search in pages that are opened from the disk. Browsers start no worker for a file: its script runs in a hidden frame
// instead. The plugin `offline` uses this file in place of one from the network, because of its name.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.pending = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.addEventListener("load", () => this.start(url), { once: true });
      document.body.append(this.frame);
    }

    start(url) {
      const inside = this.frame.contentWindow;
      const script = inside.document.createElement("script");
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      script.src = url;
      script.addEventListener("load", () => {
        this.deliver = (data) => inside.dispatchEvent(new MessageEvent("message", { data }));
        this.pending.splice(0).forEach(this.deliver);
      });
      inside.document.body.append(script);
    }

    postMessage(data) {
      this.deliver ? this.deliver(data) : this.pending.push(data);
    }
  };
}
