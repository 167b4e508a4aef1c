"""
Install parlai_ext; `agents/ tasks/ worlds/ zoo_configs/` install inside the package.

`parlai` itself is not listed among the requirements: the wheel of 1.7.2 pins
numpy 1.23 and other packages that no current transformers accepts, so it is
installed with ``--no-deps`` beside the packages that it imports (Makefile, README).
`parlai_internal` is the only package in which the `parlai` command looks for commands
that are not its own. `benchmarks/`, `torture/` and `tests/` are not installed.
"""

from setuptools import find_packages, setup

setup(
    name='parlai_ext',
    version='0.1.0',
    description='Automatic evaluation of open-domain dialogue systems, for ParlAI',
    license='MIT',
    python_requires='>=3.11,<3.12',  # with which the tests were run
    # `parlai_ext/agents` and the other three are links to the folders beside it
    packages=find_packages(
        include=['parlai_ext', 'parlai_ext.*', 'parlai_internal', 'parlai_internal.*']
    ),
    # an editable install is then the path of this folder, which mypy and editors follow
    package_dir={'': '.'},
    package_data={
        'parlai_ext': ['py.typed'],
        'parlai_ext.view': [
            f'templates/{folder}*' for folder in ('', 'sections/', 'terminal/')
        ],
        'parlai_ext.mini': ['*.json', 'zoo/**/*'],
        'parlai_ext.tasks': ['*/README.md'],
        'parlai_ext.zoo_configs': [
            *('**/*.yaml', '**/*.opt', 'openers/*.csv', 'learned/*/*.safetensors'),
        ],
        'parlai_internal': ['opt_presets/*/*.opt'],
    },
    # the lower bounds are those with which tests were run (docs/install.md)
    install_requires=[
        # statistics, tables and the page
        'numpy>=2.2.6',
        'scipy>=1.15.3',
        'pandas>=3.0.0',
        'jinja2>=3.1.4',
        'matplotlib>=3.10.0',
        'pyyaml>=6.0.2',
        # files whose keys and values are checked (MIT)
        'pydantic>=2.12.0',
        'tqdm>=4.67.1',
        # the models
        'torch>=2.13',
        'transformers>=5.24',
        'tokenizers>=0.23',
        'safetensors>=0.8',
        # the weights of smollm2-135m-q4 (MIT; its own requirements are ours already)
        'gguf>=0.19',
        # imported by `parlai` 1.7.2 at start-up; setuptools 82 has no pkg_resources and
        # from 80.9 on it prints a warning about that on every call
        'setuptools>=77.0.3,<80.9',
        'requests>=2.32.3',
        # remote systems, with one deadline for a request (BSD-3-Clause)
        'httpx2>=2.12.0',
        'regex>=2026.7.19',
        'pillow>=11.3.0',
        'joblib>=1.4.2',
        'iopath>=0.1.10',
        'subword-nmt>=0.3.8',
        'urllib3>=2.5.0',
        'scikit-learn>=1.7.0',
        'typing_extensions>=4.15.0',
        # ratings of tournaments (MIT)
        'openskill>=6.1.0',
        # Krippendorff's alpha of annotators (Apache-2.0)
        'evalica>=0.4.1',
        # tables for the terminal (MIT), and the widths of characters (MIT)
        'tabulate>=0.9.0',
        'wcwidth>=0.5.0',
        # without it train_model and eval_model end in a TypeError (core/metrics.py:953)
        'nltk>=3.9.1',
    ],
    extras_require={
        # 8-bit and 4-bit models, models on several GPUs
        'llm': ['accelerate', 'bitsandbytes', 'sentencepiece'],
        # systems that look passages up (FiD, RAG)
        'rag': ['faiss-cpu'],
        # ChatMatch: named entities, the spreadsheet of the paper's judges
        'chatmatch': ['spacy', 'stanza', 'openpyxl'],
        # metrics that compare with references, by their authors' libraries or the usual
        # ones (Apache-2.0)
        # BLEURT-20's tokenizer (Apache-2.0, BSD-3-Clause)
        'metrics': [
            *('sacrebleu', 'rouge-score', 'pyarrow'),
            *('sentencepiece', 'protobuf'),
        ],
        # moderation: the weights of toxic-comments (BSD-3-Clause), named entities
        'moderation': ['h5py', 'spacy'],
        # training of judges (Apache-2.0)
        'train': ['peft', 'accelerate'],
        # work on several machines (Apache-2.0)
        'ray': ['ray>=2.40'],
        # zipped logs of inspect_ai, as it compresses them since 2026 (MIT)
        'inspect': ['zipfile-zstd'],
        # the paper's own rating; its licence allows non-commercial use only
        'trueskill': ['trueskill'],
        'dev': [
            'ruff',
            'mypy',
            'import-linter',
            'vulture',
            'pytest',
            'pytest-xdist',
            'hypothesis',
            'types-PyYAML',
            'types-tqdm',
            'pandas-stubs',
            'scipy-stubs',
            'faiss-cpu',
            'openpyxl',
            # of the extra metrics; bert-score is what our BERTScore is compared with
            'sacrebleu',
            'rouge-score',
            'pyarrow',
            'bert-score',
            'sentencepiece',
            'protobuf',
            # of the extras moderation and inspect
            'h5py',
            'zipfile-zstd',
            # training of judges
            'peft',
            'accelerate',
            # the page is checked with axe-core (MIT; the engine in it MPL-2.0)
            'axe-core-python',
            # several machines
            'ray',
            # ratings of another program, which ours are compared with
            'trueskill',
        ],
    },
    entry_points={'console_scripts': ['parlai-ext = parlai_ext.__main__:main']},
    zip_safe=False,
)
