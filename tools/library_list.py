"""The libraries that `tools/libraries.py` runs: how each of them is installed, and where its tests are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).parent / "library_programs"


@dataclass(frozen=True)
class Library:
    """A library: how it is installed, and where its tests are.

    name     on PyPI, with the version that is tested
    needs    what else to install, with its own dependencies
    alone    what to install without dependencies, because TensorFlow is one of them
    theirs   the same, for the environment with TensorFlow only
    without  packages of this Python that the library must not see, because it takes older versions of them
    tests    files and folders with its own tests, or () where only the program in `library_programs` runs
    origin   what has the tests: "wheel", "sdist", or "owner/name@revision" of its repository on GitHub
    removed  files of the tests' sources to delete, so that the installed package is imported
    options  arguments of pytest
    part     what the tests are, where they are a part of its own
    every    run every n-th test only, where there are thousands
    settings environment variables
    """

    name: str
    version: str
    needs: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    theirs: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    origin: str = "wheel"
    removed: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    part: str = ""
    every: int = 1
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def program(self) -> Path:
        """The file of its program, whether it exists or not."""
        return PROGRAMS / f"test_{self.name.replace('-', '_')}.py"


_PROBABILITY_NEEDS = ("absl-py", "six", "decorator", "cloudpickle", "gast", "dm-tree", "numpy<2.4")  # 2.4: no newshape
_PENNYLANE_NEEDS = (
    *("networkx", "rustworkx", "autograd", "appdirs", "autoray==0.7.2", "cachetools", "requests", "scipy", "tomlkit"),
    *("diastatic-malt", "gast", "pytest-mock", "flaky", "pytest-xdist", "pytest-rng"),
)

_ALL = (
    Library(
        "eagerpy", "0.30.0", tests=("tests",), origin="jonasrauber/eagerpy@v0.30.0", options=("--backend=tensorflow",)
    ),
    Library(
        "foolbox",
        "3.3.4",
        needs=("eagerpy==0.30.0", "GitPython", "requests", "scipy", "matplotlib", "tensorboardX"),
        tests=("tests",),
        origin="bethgelab/foolbox@v3.3.4",
        options=("--backend=tensorflow",),
    ),
    Library("tf-keras-vis", "0.8.7", needs=("deprecated", "imageio", "pillow", "scipy"), tests=("tests/tf_keras_vis",)),
    Library(
        "tensornetwork",
        "0.4.6",
        needs=("graphviz", "opt-einsum", "h5py", "scipy"),
        tests=("tensornetwork/backends/tensorflow", "tensornetwork/tn_keras"),
    ),
    Library("tf-explain", "0.3.1", needs=("opencv-python-headless", "pytest-mock"), tests=("tests",)),
    Library(
        "scikeras", "0.13.0", needs=("scikit-learn", "pandas"), tests=("tests",), origin="adriangb/scikeras@v0.13.0"
    ),
    Library(
        "shap",
        "0.49.1",
        needs=("shap==0.49.1",),
        tests=("tests/explainers/test_deep.py", "tests/explainers/test_gradient.py"),
        origin="shap/shap@v0.49.1",
        removed=("shap",),
    ),
    Library("cleverhans", "4.0.0", needs=("easydict",)),
    Library(
        "adversarial-robustness-toolbox",
        "1.20.1",
        needs=("scikit-learn", "tqdm", "six", "requests", "pandas"),
    ),
    Library(
        "tensorcircuit-ng",
        "1.9.1",
        needs=("tensornetwork-ng", "networkx", "sympy", "scipy", "pytest-lazy-fixtures"),
        tests=("tests",),
        origin="tensorcircuit/tensorcircuit-ng@v1.9.1",
        options=("-k", "tfb"),
    ),
    Library("tensorly", "0.10.0", needs=("scipy",), tests=("tensorly",), settings={"TENSORLY_BACKEND": "tensorflow"}),
    Library("dm-sonnet", "2.0.2", needs=("dm-tree", "tabulate", "wrapt<2", "absl-py"), tests=("sonnet",)),
    Library(
        "pennylane",
        "0.42.3",
        needs=_PENNYLANE_NEEDS,
        alone=("pennylane-lightning==0.42.0",),
        without=("jax",),
        tests=("tests/workflow/interfaces",),
        options=("-m", "tf"),
        part="the TensorFlow tests of workflow/interfaces",
        every=20,
    ),
    Library("tensorflow-probability", "0.25.0", needs=(*_PROBABILITY_NEEDS, "scipy"), theirs=("tf-keras==2.21.0",)),
    Library(
        "deepxde",
        "1.15.0",
        needs=("scikit-learn", "scikit-optimize", "scipy", "matplotlib", *_PROBABILITY_NEEDS),
        alone=("tensorflow-probability==0.25.0",),
        theirs=("tf-keras==2.21.0",),
    ),
    Library(
        "gpflow",
        "2.11.2",
        needs=("check_shapes", "deprecated", "lark", "multipledispatch", "scipy", "tabulate", *_PROBABILITY_NEEDS),
        alone=("tensorflow-probability==0.25.0",),
        theirs=("tf-keras==2.21.0",),
        tests=("tests/gpflow", "tests/integration"),
    ),
    Library(
        "keras-tuner",
        "1.4.7",
        needs=("kt-legacy", "six", "grpcio", "protobuf", "requests", "scikit-learn", "pandas", "portpicker"),
        tests=("keras_tuner",),
        origin="keras-team/keras-tuner@v1.4.7",
    ),
    Library("keras-rs", "0.4.0", tests=("keras_rs",), origin="keras-team/keras-rs@v0.4.0"),
    Library(
        "keras-hub",
        "0.31.1",
        needs=("regex", "kagglehub", "sentencepiece", "tokenizers"),
        tests=("keras_hub",),
        origin="keras-team/keras-hub@v0.31.1",
    ),
    Library(
        "bayesflow",
        "2.0.10",
        needs=("matplotlib", "networkx", "nbconvert", "nbformat", "pandas", "scipy", "seaborn", "tqdm"),
        tests=("tests",),
        origin="bayesflow-org/bayesflow@v2.0.10",
        every=10,
        settings={"KERAS_BACKEND": "tensorflow"},
    ),
    Library(
        "spektral",
        "1.3.1",
        needs=("joblib", "lxml", "networkx", "pandas", "requests", "scikit-learn", "tqdm"),
        tests=("tests",),
        origin="danielegrattarola/spektral@a5fa5e38fca4eaca1e47ccfe1b00e0a61f64648b",
    ),
    Library(
        "pymanopt",
        "2.2.1",
        needs=("scipy", "autograd"),
        tests=("tests/backends/test_tensorflow.py",),
        origin="sdist",
        options=("--noconftest",),
    ),
    Library(
        "einops",
        "0.8.2",
        tests=("einops/tests",),
        origin="sdist",
        settings={"EINOPS_TEST_BACKENDS": "numpy,tensorflow"},
    ),
)

LIBRARIES = {library.name: library for library in _ALL}
