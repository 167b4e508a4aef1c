"""
BLEURT: a regression model that was trained on people's ratings of translations.

Source: Sellam et al. (2020), "BLEURT: Learning Robust Metrics for Text Generation", and
Pu et al. (2021) for BLEURT-20. The model reads reference and response as a pair; its
only output is the score.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from parlai_ext.scoring.base import FROM, model_option
from parlai_ext.scoring.references import Pair, ReferenceScorer


@dataclass(frozen=True)
class BleurtOptions:
    """
    The regression model.
    """

    regressor: str = model_option(
        'hf:lucadiliello/BLEURT-20',
        'regressor',
        'the checkpoint, in the format of bleurt-pytorch or as a sequence classifier '
        f'with one output: {FROM}',
    )


class Bleurt(ReferenceScorer):
    """
    The score of the best reference, about 0 to 1; higher is better.
    """

    name = 'bleurt'
    fitted_on = ('translations of WMT',)
    options_class = BleurtOptions
    instead = 'a folder with its files would do: --scorer-option regressor=FOLDER'
    options: BleurtOptions

    def pair_scores(self, pairs: Sequence[Pair]) -> list[float | None]:
        """
        Return the number that the model gives each reference and response.
        """
        model = self.models.regressor(self.options.regressor)
        responses = [response for response, _ in pairs]
        return model.numbers([reference for _, reference in pairs], responses).tolist()
