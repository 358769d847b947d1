"""Builds the wheel and the source distribution, and uses the wheel in an environment of its own.

python tests/wheel.py

Prints the wheel's size and the environment's. Without extras, what needs one says so; with the
extra "experiments" a study runs in an empty folder. `twine check` reads what a package index shows,
and each small extra alone imports what it promises.
"""

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCORES = "no,yes,gold\n" + 10 * "-1.0,-0.5,no\n-2.5,-0.4,yes\n"
STUDY = ("--model=mini", "--data=mini", "--tasks=sst2", "--limit=20", "--labeled_per_class=4")
EXTRAS = {
    "api": "import batch_calibration.scoring.api.scorer",
    "models": "import batch_calibration.scoring.causal_lm"
    "; import batch_calibration.scoring.models.files.chat_template",
    "plots": "import batch_calibration.reporting.figures.style",
    "sklearn": "from batch_calibration.estimator import LabelBiasCorrector",
    "tables": "import pyarrow, batch_calibration.studies.store",
}
"""Purpose of each small extra."""
ABSENT = ("flax", "tensorflow", "matplotlib", "pyarrow", "pandas")


def run(*args: object, code: int = 0) -> str:
    """Output of a command; another exit code than `code` ends the program."""
    args = tuple(map(str, args))
    done = subprocess.run(args, capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"error: {' '.join(args)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def size(folder: Path, files: str = "**/*") -> float:
    """Megabytes of files below a folder."""
    return sum(path.lstat().st_size for path in folder.glob(files) if path.is_file()) / 1e6


def main() -> None:
    """Build, install, use."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # Written elsewhere than in the checkout: a wheel's build leaves folders.
        run(sys.executable, "-m", "venv", folder / "v")
        pip = folder / "v" / "bin" / "pip"
        run("git", "clone", "--quiet", ROOT, folder / "source")
        run(sys.executable, "-m", "venv", folder / "tools")
        tools = folder / "tools" / "bin"
        run(tools / "pip", "install", "--quiet", "--no-compile", "build==1.6.1", "twine==7.0.0")
        run(tools / "python", "-m", "build", "--outdir", folder, folder / "source")
        (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        stdout = run(tools / "twine", "check", "--strict", wheel, source)
        assert stdout.count("PASSED") == 2, stdout
        pinned = ROOT / "constraints/package.txt"
        # Modules are compiled when they are first imported: most of them never are.
        install = ("install", "--quiet", "--no-compile", "--constraint", pinned)
        run(pip, *install, wheel)
        os.chdir(folder)
        Path("scores.csv").write_text(SCORES)
        program = folder / "v" / "bin" / "batch-calibration"
        stdout = run(program, "demo")
        assert "Accuracy moves from 68.5" in stdout, stdout
        for command in (
            "calibrate demo.csv",
            "compare demo.csv --gold=label",
            "threshold demo.csv --gold=label --positive=yes --for=f1 --output=curve.csv",
            "label demo.csv --labels=yes,maybe,no --ids=id --n=30",
            "judge demo_judge.jsonl",
        ):
            run(program, *command.split())
        stdout = run(program, "calibrate", "scores.csv", "--gold=gold", "--output=corrected.csv")
        assert "Accuracy moves from 50.0" in stdout, stdout
        head = Path("corrected.csv").read_text().splitlines()[0]
        assert head == "row,no,yes,p(no),p(yes),confidence,prediction,gold"
        run(program, "compare", "scores.csv", "--gold=gold")
        run(program, "report", "scores.csv", "--gold=gold")
        assert "batch-calibration[plots]" in Path("report.html").read_text()
        stdout = run(program, "diagnose", "scores.csv", "--gold=gold", "--plot=x.png", code=2)
        assert "batch-calibration[plots]" in stdout, stdout
        installed = {line.split()[0].lower() for line in run(pip, "list").splitlines()}
        assert not installed & set(ABSENT), installed & set(ABSENT)
        stdout = run(program, "score", *STUDY, "--workdir=W", code=2)
        assert "pip install 'batch-calibration[experiments]'" in stdout, stdout
        print(f"wheel: {size(folder, '*.whl'):.1f} MB; environment: {size(folder / 'v'):.0f} MB")

        def use_alone(extra: str) -> None:
            """Install one extra in an environment of its own, and import what it promises."""
            python = folder / extra / "bin" / "python"
            run(sys.executable, "-m", "venv", "--without-pip", folder / extra)
            run(pip, "--python", python, *install, f"{wheel}[{extra}]")
            run(python, "-c", EXTRAS[extra])

        with ThreadPoolExecutor(2) as two:
            list(two.map(use_alone, EXTRAS))
        run(pip, *install, f"{wheel}[experiments]")
        stdout = run(program, "score", *STUDY, "--workdir=W")
        assert "1 contexts" in stdout, stdout
        for command in ("calibrate", "tables", "figures", "report", "status"):
            run(program, command, "--workdir=W")
        assert Path("W/report.html").is_file() and list(Path("W/figures").glob("*.png"))
        stdout = run(program, "show", *STUDY)
        assert "tokens of the first test row" in stdout, stdout


if __name__ == "__main__":
    main()
