"""
Scorers by name; a class is imported only when it is asked for.

A scorer from outside the package is named ``module:Class`` or ``path/file.py:Class``.
Its code is imported only when the user names it: on the command line, or in a protocol
file that the user passes. What a run folder says is never enough.
"""

from dataclasses import is_dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

from parlai_ext.core import (
    JsonDict,
    JsonObject,
    UserError,
    bytes_hash,
    flag_values,
    frozen,
    one_value,
    option,
    optional,
    options_from_opt,
    options_of,
    read_key_values,
    require_known,
)
from parlai_ext.files import protocol_file
from parlai_ext.files.protocol_file import ProtocolFile
from parlai_ext.isolation.outside_code import outside_module, own_files
from parlai_ext.scoring.base import OutsideCode, Scorer

DETECTORS = {  # of toxic texts
    'words': 'parlai_ext.scoring.toxicity:Words',
    'parlai_matcher': 'parlai_ext.scoring.toxicity:ParlaiMatcher',
    'better_profanity': 'parlai_ext.scoring.toxicity:BetterProfanity',
    'profanity_check': 'parlai_ext.scoring.toxicity:ProfanityCheck',
    'toxic_classifier': 'parlai_ext.scoring.toxicity:ToxicClassifier',
}
SCORERS = {
    'fed': 'parlai_ext.scoring.likelihood:Fed',
    'chatmatch': 'parlai_ext.scoring.chatmatch:ChatMatch',
    'chatmatch_game': 'parlai_ext.scoring.chatmatch:ChatMatchGame',
    'likelihood': 'parlai_ext.scoring.likelihood:Likelihood',
    'relevance': 'parlai_ext.scoring.relevance:Relevance',
    'composite': 'parlai_ext.scoring.learned:Composite',
    'crs': 'parlai_ext.scoring.learned:Crs',
    'human_centered': 'parlai_ext.scoring.relevance:HumanCentered',
    'learned': 'parlai_ext.scoring.learned:Learned',
    'learned_references': 'parlai_ext.scoring.learned:LearnedReferences',
    'paireval': 'parlai_ext.scoring.llm_judges:PairEval',
    'directeval': 'parlai_ext.scoring.llm_judges:DirectEval',
    'prompted': 'parlai_ext.scoring.llm_judges:Prompted',
    'unieval': 'parlai_ext.scoring.trained_metrics:UniEval',
    'usr': 'parlai_ext.scoring.trained_metrics:Usr',
    'ctc': 'parlai_ext.scoring.trained_metrics:Ctc',
    'density': 'parlai_ext.scoring.trained_metrics:Density',
    'bleurt': 'parlai_ext.scoring.references:Bleurt',
    'length': 'parlai_ext.scoring.trivial:Length',
    'distinct': 'parlai_ext.scoring.trivial:Distinct',
    'repetition': 'parlai_ext.scoring.trivial:Repetition',
    'overlap': 'parlai_ext.scoring.trivial:Overlap',
    'bleu_2': 'parlai_ext.scoring.references:Bleu2',
    'amfm': 'parlai_ext.scoring.relevance:AmFm',
    'amfm_references': 'parlai_ext.scoring.relevance:AmFmReferences',
    'holistic': 'parlai_ext.scoring.relevance:Holistic',
    'full': 'parlai_ext.scoring.likelihood:Full',
    'perplexity': 'parlai_ext.scoring.likelihood:Perplexity',
    'token_accuracy': 'parlai_ext.scoring.likelihood:TokenAccuracy',
    'llm_judge': 'parlai_ext.scoring.llm_judges:LlmJudge',
    'llm_dialogue': 'parlai_ext.scoring.llm_judges:LlmDialogue',
    'llm_pair': 'parlai_ext.scoring.llm_judges:LlmPair',
    'llm_eval': 'parlai_ext.scoring.llm_judges:LlmEval',
    'rouge_l': 'parlai_ext.scoring.references:RougeL',
    'meteor': 'parlai_ext.scoring.references:Meteor',
    'embedding_average': 'parlai_ext.scoring.references:EmbeddingAverage',
    'embedding_extrema': 'parlai_ext.scoring.references:EmbeddingExtrema',
    'embedding_greedy': 'parlai_ext.scoring.references:EmbeddingGreedy',
    'bertscore': 'parlai_ext.scoring.references:BertScore',
    **DETECTORS,
    'stance': 'parlai_ext.scoring.toxicity:Stance',
    'deflection': 'parlai_ext.scoring.toxicity:Deflection',
    'non_answer': 'parlai_ext.scoring.toxicity:NonAnswer',
}
DEFAULT = 'learned'  # where none is named
WITH_REFERENCES = 'learned_references'  # of imports whose judged turns all have some
FLAGS_OF = 'fed'  # the scorer whose options are flags of commands


@frozen
class ScorerChoice:
    """
    The scorer by name, and options of any scorer by key and value.
    """

    scorer: str | None = optional(
        metavar='NAME',
        help='fed, chatmatch, my_module:MyScorer, file.py:MyScorer, or a protocol, '
        'whose ranking rule goes with it (default: the run’s)',
    )
    scorer_option: tuple[str, ...] = option(
        (),
        read=one_value,
        metavar='KEY=VALUE',
        help='an option of the scorer; may be given several times',
    )


def is_outside(name: str) -> bool:
    """
    True if the name is that of a scorer from outside the package.
    """
    return ':' in name and name not in SCORERS


def find_scorer(name: str, *, named_by_user: bool = False) -> type[Scorer]:
    """
    Return the scorer class called ``name``. One from outside the package knows its file
    and its sha256.

    :param named_by_user: code from outside the package may be imported, since the user
        named it.
    :raises UserError: when there is none, with the nearest name, or when it is outside
        code that the user did not name.
    """
    if not is_outside(name):
        require_known(name, SCORERS, f'unknown scorer {name!r}')
        return resolve_name(SCORERS[name])
    return outside_scorer(name, outside_module(name, named_by_user=named_by_user))


def outside_scorer(name: str, module: ModuleType) -> type[Scorer]:
    """
    Return the scorer class that a name from outside the package means.
    """
    attribute = name.rpartition(':')[2]
    scorers = {
        key: value
        for key, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, Scorer) and value is not Scorer
    }
    require_known(attribute, scorers, f'scorer {name}: no scorer {attribute!r} in it')
    scorer = scorers[attribute]
    problem = ''
    if '|' in str(scorer.name) or scorer.name in (None, '', *SCORERS):
        problem = f"its class needs a name of its own without '|', not {scorer.name!r}"
    elif not is_dataclass(scorer.options_class):
        problem = f'options_class: a dataclass is expected: {scorer.options_class!r}'
    if problem:
        raise UserError(f'scorer {name}: {problem}')
    file = Path(str(module.__file__))
    contents = b''.join(path.read_bytes() for path in own_files(file))
    scorer.code = OutsideCode(file.name, bytes_hash(contents))
    return scorer


def scorer_class(section: JsonObject, *, named_by_user: bool) -> type[Scorer]:
    """
    Return the scorer class of a ``scorer:`` section; `DEFAULT` if it has no
    name.

    :raises UserError: as `find_scorer`.
    """
    return find_scorer(str(section.get('name') or DEFAULT), named_by_user=named_by_user)


def scorer_section(
    section: JsonObject, opt: JsonObject, *, named_by_user: bool = False
) -> JsonDict:
    """
    Return a ``scorer:`` section with the options of the command line in their places:
    ``--scorer-option KEY=VALUE``, and the flags of the scorer's own options.

    :raises UserError: for a flag of another scorer's option.
    """
    name = str(section.get('name') or DEFAULT)
    pairs = options_from_opt(ScorerChoice, opt).scorer_option
    if is_outside(name) and not pairs and not named_by_user:
        return dict(section)
    cls = scorer_class(section, named_by_user=named_by_user)
    valid = {one.dest(cls.name) for one in options_of(cls.options_class).values()}
    for one in options_of(find_scorer(FLAGS_OF).options_class).values():
        key = one.dest(FLAGS_OF)
        if opt.get(key) is not None and key not in valid:
            raise UserError(
                f'{one.flag_name(FLAGS_OF)}: scorer {name} has no such option'
            )
    return {
        **section,
        **flag_values(cls.options_class, opt, cls.name),
        **read_key_values(cls.options_class, pairs, '--scorer-option'),
    }


def load_protocol_file(
    name_or_path: str, overrides: JsonObject | None = None
) -> ProtocolFile:
    """
    Return the protocol in a file, by shipped name or by path, its scorer's options
    checked.

    A file that names no scorer gets the default one. The user passes the file, so that
    it may name a scorer from outside the package.

    :param overrides: options of the command line, which replace keys of the file.
    :raises UserError: names file, line and key of the first mistake.
    """

    def scorer_options(name: str | None) -> type:
        return find_scorer(name or DEFAULT, named_by_user=True).options_class

    read = protocol_file.read_protocol_file(name_or_path, overrides, scorer_options)
    if read.protocol.scorer.get('name'):
        return read
    scorer = {'name': DEFAULT, **read.protocol.scorer}
    return replace(read, protocol=replace(read.protocol, scorer=scorer))
