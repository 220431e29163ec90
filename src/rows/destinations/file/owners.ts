import { readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { FileFacts, FileOptions, ManifestTag } from '../destination.ts';
import { hiddenPrefix, ignore } from './folders.ts';

/** Which export and run wrote a file: a hidden file beside it, whose name holds its tag. A changed file has no owner. */
const pathOf = (folder: string, tag: string) => join(folder, `${hiddenPrefix}owner-${tag}`);

/** To be called before the file gets its name. */
export async function noteOwner(
  folder: string,
  tag: ManifestTag,
  { owner, run }: Pick<FileOptions, 'owner' | 'run'>,
): Promise<void> {
  if (tag === null || owner === undefined) return;
  const words = run ? [owner, run.id, run.era] : [owner];
  await writeFile(pathOf(folder, tag), words.join(' '), { mode: 0o644 });
}

export async function readOwner(
  folder: string,
  tag: ManifestTag,
): Promise<Required<Pick<FileFacts, 'owner' | 'run'>>> {
  const text =
    tag === null ? '' : await readFile(pathOf(folder, tag), 'utf8').catch(ignore('ENOENT'));
  const [owner, id, era] = (text ?? '').split(' ');
  return { owner: owner || null, run: id && era ? { id, era } : null };
}

/** The file with this tag is gone. */
export async function forgetOwner(folder: string, tag: ManifestTag): Promise<void> {
  if (tag !== null) await unlink(pathOf(folder, tag)).catch(ignore('ENOENT'));
}
