# The commands of the course. README.md has them as plain commands, for machines without make.

# Used to make .venv, and not after that: make lab PYTHON=python3.12
PYTHON ?= python3

# Goes to the end of the command: make lab ARGS="--ip=0.0.0.0 --port=9999"
ARGS ?=

IN_VENV := .venv/bin/python
# uv, with the settings of pip on this machine
UV := .ci/environment.py uv
PYTEST := $(IN_VENV) -m pytest --nbval --nbval-current-env -n 3 --dist loadfile
# A tool in an environment of its own.
TOOL := $(IN_VENV) $(UV) tool run

# The first start asks nothing and calls no outside host.
LAB := --LabApp.default_url=/lab/tree/notebooks/01_tokenization.ipynb --ServerApp.root_dir=. \
	--LabApp.news_url=None --LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate \
	--LabApp.app_settings_dir=.ci/lab
# Jupyter refuses to run as root (in a container, for example) unless told to.
LAB += $(if $(filter 0,$(shell id -u)),--allow-root)
# Without a screen there is no browser to open; the address is printed.
LAB += $(if $(filter Linux,$(shell uname -s)),$(if $(DISPLAY)$(WAYLAND_DISPLAY),,--no-browser))

# An older CPU: no vector instructions, one thread.
OLD_CPU := ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41 OMP_NUM_THREADS=1

# How constraints.txt is resolved: for every system and every Python from the oldest on, with one version each.
RESOLVE = --universal --python-version 3.11 --fork-strategy fewest --upgrade --excludes .ci/unpinned.txt \
	--no-annotate --quiet --custom-compile-command "make constraints" --output-file constraints.txt

# What requirements.txt pins itself is left out. What the others pin, it may bring along.
RESOLVED := requirements.txt requirements-dev.txt .ci/site.txt
RESOLVE += $(shell sed -n 's/==.*/ /p' requirements.txt | sed 's/^/--no-emit-package /')

.PHONY: help environment dev-environment lab check test test-portable rehearse validate notebooks longer-runs timings \
	writer-costs more-texts site-environment site links publish constraints bench format python

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-17s %s\n", $$1, $$2 }' Makefile

environment: python ## make .venv and install the packages, unless that is done (most others begin with it)
	@"$(PYTHON)" .ci/environment.py

dev-environment: python ## make .venv with what the tests need besides (those that test begin with it)
	@"$(PYTHON)" .ci/environment.py dev

lab: environment ## open JupyterLab on the first notebook
	@$(IN_VENV) -m jupyterlab $(LAB) $(ARGS)

check: dev-environment ## check the code and the rooms of utils, in under a minute (or some: ARGS="-k mask")
	$(IN_VENV) -m ruff check
	$(IN_VENV) -m ruff format --check
	$(IN_VENV) -m pytest tests -m "not slow and not browser and not hub" -n 2 --dist loadfile --durations 3 $(ARGS)

test: dev-environment ## check the code, run every test, compare every notebook with its stored outputs
	$(IN_VENV) -m ruff check
	$(IN_VENV) -m ruff format --check
	$(PYTEST) $(ARGS)

test-portable: dev-environment ## compare the notebooks again, computing as an older CPU would
	$(OLD_CPU) $(PYTEST) notebooks $(ARGS)

validate: dev-environment ## check the workflows and CITATION.cff
	$(TOOL) check-jsonschema==0.39.0 --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(TOOL) check-jsonschema==0.39.0 --builtin-schema custom.github-workflows-require-timeout .github/workflows/*.yml
	$(TOOL) check-jsonschema==0.39.0 --builtin-schema vendor.dependabot .github/dependabot.yml
	$(TOOL) zizmor==1.32.0 --offline --quiet --persona pedantic .github
	$(TOOL) cffconvert==2.0.0 --validate

rehearse: dev-environment ## run every notebook in a stand-in for Colab, then with another model (or some: ARGS="colab 01 06")
	$(IN_VENV) .ci/rehearse.py $(ARGS)

notebooks: dev-environment ## generate badges and navigation, then execute every notebook in place (or: ARGS="02 06")
	$(IN_VENV) .ci/course.py notebooks $(ARGS)

longer-runs: dev-environment ## train the models of notebook 12 with ten seeds and store what they reach: 20 minutes
	PYTHONPATH=.ci $(IN_VENV) .ci/data/longer_runs.py

timings: dev-environment ## measure times and memory of notebook 11 again (wants a quiet machine) and store them
	PYTHONPATH=.ci $(IN_VENV) .ci/data/timings.py

writer-costs: dev-environment ## measure for notebook 13 what a second rounding costs and what a cache saves: two minutes
	PYTHONPATH=.ci $(IN_VENV) .ci/data/writer_costs.py

more-texts: dev-environment ## run what notebooks 14 and 15 show on more texts and store it: six minutes
	PYTHONPATH=.ci $(IN_VENV) .ci/data/more_texts.py

site-environment: dev-environment ## install what the web pages need besides
	@$(IN_VENV) $(UV) pip install --quiet --requirement .ci/site.txt

site: site-environment ## make web pages of the course in _site/, with live views (or run only some: ARGS="02 06")
	$(IN_VENV) .ci/site/build.py $(ARGS)

links: site-environment ## ask for each link of the pages that `make site` makes
	$(IN_VENV) .ci/site/build.py --links

publish: dev-environment ## write the repository's address everywhere: make publish REPO=owner/name
	$(IN_VENV) .ci/course.py publish $(REPO)

constraints: python ## resolve the requirements anew and write constraints.txt
	@sed '/^-c/d' $(RESOLVED) | "$(PYTHON)" $(UV) pip compile - $(RESOLVE)

bench: dev-environment ## print measurements, and one table of them at the end (or some: ARGS="views checks")
	@$(IN_VENV) tests/benchmarks/summary.py $(ARGS)

format: dev-environment ## let ruff mend and format the code and the notebooks
	$(IN_VENV) -m ruff check --fix; found=$$?; $(IN_VENV) -m ruff format && exit $$found

# An f-string tells Python 3 from a Python 2 and from a name that is not there.
python:
	@"$(PYTHON)" -c "f''" >/dev/null 2>&1 || { echo; echo "No Python 3 answers to the name \"$(PYTHON)\"." \
		"Install Python 3.11 or newer, or name yours, for example: make lab PYTHON=python3.12"; exit 1; } >&2
