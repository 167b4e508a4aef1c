"""
Every family at one table: a small model of each class, chat models and remote systems,
all as targets and all as partners, in one bipartite run.

    python -m tests.support.family_run runs/families

builds the models, starts the server of the remote ones, and runs
``parlai evaluate_systems`` on the protocol it wrote: first with ``--pilot``, then in
earnest. What the models say means nothing: their weights are random.
"""

import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

import yaml

from parlai_ext.commands import plugin
from parlai_ext.store import RunFolder
from tests.support import families, family_fid, family_hf, family_remote

PARLAI = Path(sys.executable).parent / 'parlai'


def build(folder, url):
    """
    Write one model of each family below ``folder``; return their options by name.

    :param url: of the server that plays the remote systems.
    """
    plugin.register()
    found = {}
    for name, builder in {
        **families.FAMILIES,
        **family_fid.FAMILIES,
        **family_hf.FAMILIES,
    }.items():
        home = folder / name
        home.mkdir(parents=True)
        found[name] = builder(home)
    for name in ('openai', 'plain'):
        system = family_remote.make_remote(folder, url, remote_format=name)
        found[f'remote_{name}'] = dict(system.opt)
    return found


def write_protocol(folder, systems, num_dialogues=2):
    """
    Write a protocol in which every system is a target and, by another name, a partner.
    """
    entries = [{'name': name, 'opt': opt} for name, opt in systems.items()]
    protocol = {
        'pairing': 'bipartite',
        'openers': 'ext:smalltalk',
        'num_dialogues': num_dialogues,
        'num_turns': 12,
        'scorer': {'name': 'fed', 'judge_model_file': 'zoo:mini/judge/model'},
        'ranking': {'bootstraps': 200},
        'roster': {
            'targets': entries,
            'partners': [{**e, 'name': f'with {e["name"]}'} for e in entries],
        },
    }
    path = folder / 'families.yaml'
    path.write_text(yaml.safe_dump(protocol, sort_keys=False), encoding='utf-8')
    return path


def evaluate(protocol, run, *more):
    """
    Run the command that a user would type.
    """
    config = ['--config', str(protocol), '--run-dir', str(run)]
    command = [str(PARLAI), 'evaluate_systems', *config, *more]
    print('$', 'parlai', *command[1:], flush=True)
    subprocess.run(command, check=True)


def table(run):
    """
    Return, for each family, its dialogues as target and as partner that reached their
    length, and its utterances that have an Overall score.
    """
    folder = RunFolder.existing(run)
    pairs = {pairing.id: pairing for pairing in folder.pairings}
    counts = {pairing.first: [0, 0, 0] for pairing in folder.pairings}
    for dialogue in folder.iter_dialogues():
        if dialogue.ended_by is None and len(dialogue.utterances) == 12:
            pairing = pairs[dialogue.pairing_id]
            counts[pairing.first][0] += 1
            counts[pairing.second.removeprefix('with ')][1] += 1
    signature = folder.read_json('ranking.json')['signature'].partition(' || ')[2]
    scores = folder.scores(signature)
    for shard in folder.dialogue_shards():
        for scored in scores.read(shard):
            for score in scored.scores:
                if score.dimension == 'Overall' and score.value is not None:
                    counts[score.system][2] += 1
    return {name: (row[0], row[1], row[2]) for name, row in counts.items()}


def main():
    """
    Build, run, and print what came out.
    """
    parser = ArgumentParser(description=__doc__)
    parser.add_argument('folder', type=Path)
    parser.add_argument('--num-dialogues', type=int, default=2)
    args = parser.parse_args()
    args.folder.mkdir(parents=True)
    with family_remote.running_server() as url:
        systems = build(args.folder.absolute() / 'models', url)
        protocol = write_protocol(args.folder, systems, args.num_dialogues)
        run = args.folder / 'run'
        evaluate(protocol, run, '--pilot')
        evaluate(protocol, run)
    print(f'{"family":24}{"as target":>12}{"as partner":>12}{"scored":>12}')
    for name, counts in table(run).items():
        print(f'{name:24}' + ''.join(f'{count:>12}' for count in counts))


if __name__ == '__main__':
    main()
