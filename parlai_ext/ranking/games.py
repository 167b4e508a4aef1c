"""
Games, matches, tournaments: raw scores in, points and cross-tables out.

A game is won dimension by dimension: one point for the side whose raw score is larger
on it, none for either where they are equal (Yang et al. 2022, section 2.2.1). All
games of a pair make its match; all matches make the tournament.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations

from parlai_ext.core import frozen, grouped, mean

RawScores = Mapping[str, Mapping[str, float | None]]
UNITS, ENDS = ('games', 'matches'), ('won', 'drawn', 'lost')


@frozen
class Game:
    """
    One game: the system that began it, its opponent, and raw scores.

    `raw` maps system -> dimension -> value (larger is better), `None` for no score.
    """

    first: str
    second: str
    raw: RawScores
    id: str = ''

    @property
    def sides(self) -> tuple[str, str]:
        """
        The two systems.
        """
        return self.first, self.second


@frozen
class GameResult:
    """
    The points of one game: 1, 0, or `None` on a dimension that one side lacks.
    """

    game: Game
    points: Mapping[str, Mapping[str, int | None]]

    @cached_property
    def totals(self) -> dict[str, int]:
        return {
            name: sum(point or 0 for point in points.values())
            for name, points in self.points.items()
        }

    @cached_property
    def has_points(self) -> bool:
        """
        True if both sides have a raw score on some dimension.

        A dimension gives points to both sides or to none, so the first one's tell.
        """
        points = self.points[self.game.first].values()
        return any(point is not None for point in points)

    @property
    def winner(self) -> str | None:
        """
        The side with more points; `None` for a draw.
        """
        return leader(self.totals)


@frozen
class Match:
    """
    All compared games of two systems, their points added up.
    """

    systems: tuple[str, str]
    points: tuple[int, ...]
    games: int

    @property
    def winner(self) -> str | None:
        """
        The system with more points over the games; `None` for a tie.
        """
        return leader(dict(zip(self.systems, self.points, strict=True)))


@frozen
class Tournament:
    """
    The results of all games between `systems` (sorted), on these `dimensions`.
    """

    systems: tuple[str, ...]
    dimensions: tuple[str, ...]
    results: tuple[GameResult, ...]

    @cached_property
    def compared_games(self) -> tuple[GameResult, ...]:
        """
        The games that have a result, in an order that the input's does not change.
        """

        def key(result: GameResult) -> tuple[str, str, str, int, int]:
            game = result.game
            totals = result.totals[game.first], result.totals[game.second]
            return (game.first, game.second, game.id, *totals)

        compared = [result for result in self.results if result.has_points]
        return tuple(sorted(compared, key=key))

    @cached_property
    def matches(self) -> tuple[Match, ...]:
        """
        One match for each pair that met, by name.
        """
        games = grouped((tuple(sorted(one.points)), one) for one in self.compared_games)
        return tuple(
            Match(
                (first, second),
                tuple(sum(r.totals[n] for r in own) for n in (first, second)),
                len(own),
            )
            for (first, second), own in sorted(games.items())
        )

    @cached_property
    def never_met(self) -> tuple[tuple[str, str], ...]:
        """
        The pairs without a single compared game.
        """
        pairs_that_met = {match.systems for match in self.matches}
        return tuple(
            p for p in combinations(self.systems, 2) if p not in pairs_that_met
        )

    def incomplete(self) -> str | None:
        """
        Return what keeps this from being a whole tournament; `None` when nothing does.
        """
        if len(self.systems) < 2:
            return f'{len(self.systems)} system; a tournament needs two or more'
        if not self.compared_games:
            return 'no game has a raw score of both sides on any dimension'
        if self.never_met:
            pairs = [f'{first} and {second}' for first, second in self.never_met]
            more = f' (and {len(pairs) - 3} more)' if len(pairs) > 3 else ''
            return f'never met: {", ".join(pairs[:3])}{more}'
        return None

    def notes(self) -> Iterator[str]:
        """
        Yield notes on games and dimensions without points.
        """
        if unscored := len(self.results) - len(self.compared_games):
            yield f'{unscored} of {len(self.results)} games have no result'
        for dimension in self.dimensions:
            missing = [r.points[r.game.first][dimension] is None for r in self.results]
            if any(missing):
                yield (
                    f'{dimension}: no points in {sum(missing)} of {len(missing)} '
                    'games, where a side has no raw score'
                )
        counts = sorted({match.games for match in self.matches})
        if len(counts) > 1:
            yield f'matches of {counts[0]} to {counts[-1]} games'

    def cross_table(self) -> dict[str, dict[str, int | None]]:
        """
        Return system -> opponent -> its points against that opponent.

        `None` where they never met, and on the diagonal.
        """
        table = {system: dict.fromkeys(self.systems) for system in self.systems}
        for match in self.matches:
            first, second = match.systems
            table[first][second], table[second][first] = match.points
        return table

    def dimension_points(self) -> dict[str, dict[str, int]]:
        """
        Return system -> dimension -> points over all games.
        """
        table = {name: dict.fromkeys(self.dimensions, 0) for name in self.systems}
        for result in self.compared_games:
            for name, points in result.points.items():
                for dimension, point in points.items():
                    table[name][dimension] += point or 0
        return table

    def records(self) -> dict[str, dict[str, int]]:
        """
        Return the numbers of games and matches that each system won, drew and lost.
        """
        ends = [f'{unit}_{end}' for unit in UNITS for end in ENDS]
        records = {name: dict.fromkeys(ends, 0) for name in self.systems}
        decided = [
            ('games', result.game.sides, result.winner)
            for result in self.compared_games
        ]
        decided += [('matches', match.systems, match.winner) for match in self.matches]
        for unit, pair, winner in decided:
            for name in pair:
                end = 'drawn' if winner is None else 'won' if winner == name else 'lost'
                records[name][f'{unit}_{end}'] += 1
        return records


def award_points(
    games: Sequence[Game],
    *,
    dimensions: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
) -> Tournament:
    """
    Return the results of all games.

    :param dimensions: those that count (`None`: all that any game names, sorted).
    :param systems: the systems of the tournament (`None`: all that played); games of
        others are left out.
    """
    players = {name for game in games for name in game.sides}
    wanted = sorted(players if systems is None else set(systems))
    known = {d for game in games for own in game.raw.values() for d in own}
    chosen = sorted(known) if dimensions is None else list(dimensions)
    results = tuple(
        game_result(game, chosen) for game in games if {*game.sides} <= {*wanted}
    )
    return Tournament(tuple(wanted), tuple(chosen), results)


def game_result(game: Game, dimensions: Sequence[str]) -> GameResult:
    """
    Return the points of a game of two systems on each of these dimensions.
    """
    first, second = dict.fromkeys(dimensions), dict.fromkeys(dimensions)
    for dimension in dimensions:
        a, b = (_raw(game, one, dimension) for one in game.sides)
        if a is not None and b is not None:
            first[dimension], second[dimension] = int(a > b), int(b > a)
    return GameResult(game, {game.first: first, game.second: second})


def mean_raw(
    games: Sequence[Game], systems: Sequence[str]
) -> dict[str, dict[str, float | None]]:
    """
    Return system -> dimension -> mean raw score over its games that have one.
    """
    known = grouped(
        ((name, dimension), _raw(game, name, dimension))
        for game in games
        for name in {*game.sides} & {*systems}
        for dimension in game.raw.get(name, {})
    )
    means = grouped(
        (name, (dimension, mean([one for one in values if one is not None])))
        for (name, dimension), values in known.items()
    )
    return {name: dict(own) for name, own in sorted(means.items())}


def leader(points: Mapping[str, int]) -> str | None:
    """
    Return the side with more points; `None` when both have the same.
    """
    (first, own), (other, others) = points.items()
    return None if own == others else first if own > others else other


def _raw(game: Game, system: str, dimension: str) -> float | None:
    """
    Return a raw score; NaN is no score.
    """
    value = game.raw.get(system, {}).get(dimension)
    return None if value is None or value != value else value
