import { runCli } from '../../support/cli.ts';
import { randomOf } from '../../support/random.ts';
import { act, type World } from './world.ts';

/** People whose rows are to be erased; `insertPeople` has made them. */
export const people = 40;

/**
 * Erases one person after the other from an export beside all else. If the command says that it has, no run that goes on, or
 * is repeated, may bring the rows back.
 */
export async function erasePeople(world: World, signal: AbortSignal): Promise<void> {
  const { installation, exports, seed } = world;
  const random = randomOf(seed, 'erasures');
  const target = exports.find(({ name }) => name === 'packed');
  if (!target) return;
  let person = 0;
  await act(
    signal,
    () => random.between(2_000, 8_000),
    async () => {
      person = (person % people) + 1;
      const key = `person ${person}`;
      const { rows } = await installation.sql<{ uuid: string }>`delete from events
        where distinct_id = ${key} returning uuid`;
      const uuids = world.people.get(key) ?? rows.map(({ uuid }) => uuid);
      world.people.set(key, uuids);
      for (const uuid of uuids) world.deleted.add(uuid);
      const asked = ['erase', 'rewrite', '--export', target.id, '--column', 'distinct_id'];
      const { code, output } = await runCli([...asked, '--key', key, '--timeout', '60'], {
        env: installation.env,
        signal,
      });
      if (code !== 0) {
        const why = output.trim().split('\n').at(-1)?.replace(/\d+/g, '#') ?? '';
        world.unerased.set(why, (world.unerased.get(why) ?? 0) + 1);
        return;
      }
      for (const uuid of uuids) world.erased.add(`${target.name} ${uuid}`);
    },
  );
}
