"""
Detectors of toxic texts as a user names them on a command line.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.options import read_key_values
from parlai_ext.files.model_cards import is_model_name, model_names
from parlai_ext.scoring.base import Models
from parlai_ext.scoring.registry import DETECTORS, SCORERS, find_scorer
from parlai_ext.scoring.toxicity import CLASSIFIER, ToxicityDetector

# from outside the package; `isolation/policy.py` refuses every such name in a record
OUTSIDE = re.compile(r'[\w./-]+:[A-Za-z_]\w*')
FROM_HUBS = ('hf:', 'zoo:')


def detector_section(spec: str, *, named_by_user: bool = False) -> dict[str, Any]:
    """
    Return the ``scorer:`` section of a detector that a text names.

    :raises UserError: for an unknown name or setting; also for code from outside the
        package that the user did not name.
    """
    name, *pairs = spec.split(',')
    kind, equals, file = name.partition('=')
    if kind in SCORERS:
        name = kind
        pairs += [f'file={file}'] * bool(equals)
    elif not OUTSIDE.fullmatch(name) or name.startswith(FROM_HUBS):
        known = name.startswith(FROM_HUBS) or is_model_name(name)
        if not (known or Path(name).exists()):
            hint = nearest(name, [*DETECTORS, *model_names('classifier')])
            raise UserError(f'detector {name}: neither a name nor a file; {hint}')
        pairs.append(f'model={name}')
        name = CLASSIFIER
    cls = find_scorer(name, named_by_user=named_by_user)
    if not issubclass(cls, ToxicityDetector):
        raise UserError(f'detector {name}: {cls.__name__} is no ToxicityDetector')
    where = f'detector {spec.partition(",")[0]}:'
    return {'name': name, **read_key_values(cls.options_class, pairs, where)}


def detector_title(section: dict[str, Any]) -> str:
    """
    Return what tables call a detector: its last folder or file, or its kind.

    >>> detector_title({'name': CLASSIFIER, 'model': 'hf:unitary/toxic-bert'})
    'toxic-bert'
    """
    model = str(section.get('model') or section['name'])
    return section.get('called') or Path(model.removeprefix('hf:')).name


def read_detector(spec: str, models: Models) -> ToxicityDetector:
    """
    Return the detector that a user names, its model loaded; its code may be from
    outside the package.

    :raises UserError: for a name that means nothing, a missing file or package, or a
        classifier whose toxic label cannot be told.
    """
    detectors, missing = load_detectors([spec], models, named_by_user=True)
    for line in missing:
        raise UserError(line)
    return next(iter(detectors.values()))


def load_detectors(
    specs: Sequence[str], models: Models, *, named_by_user: bool = False
) -> tuple[dict[str, ToxicityDetector], list[str]]:
    """
    Return the detectors that can be had by their titles, and why others cannot: a
    package is missing, or a model cannot be fetched.

    :param named_by_user: code from outside the package may be imported, since the user
        named it.
    :raises UserError: for a name that means nothing, a wrong setting, a word list that
        is not there, and when two have one name.
    """
    sections = [detector_section(one, named_by_user=named_by_user) for one in specs]

    from parlai_ext.scoring.score_run import prepared_scorer

    prepared: dict[str, Any] = {}
    for section in sections:
        detector = prepared_scorer(section, models, named_by_user=named_by_user)
        title = detector_title(section)
        if title in prepared:
            raise UserError(
                f'--detectors: two are called {title}; NAME,called=… tells them apart'
            )
        prepared[title] = detector
    missing = []
    for title, detector in list(prepared.items()):
        try:
            detector.load_models()
        except UserError as error:
            missing.append(str(error))
            del prepared[title]
    return prepared, missing
