import { Type } from 'typebox';
import type { DestinationConfig } from '../../../foundation/domain/file-settings.ts';
import { longestName } from '../../../foundation/domain/key-template.ts';
import { invalid, type Problem, problemsIn } from '../../../foundation/domain/problem.ts';
import { defineDestination } from '../define-destination.ts';
import { openFileDestination } from './destination.ts';

export const fileDefinition = defineDestination({
  type: 'File',
  description: 'Writes files on the machine of the workers.',
  properties: {
    directory: Type.String({
      description:
        "Directory below FILE_DESTINATION_ROOT. Sluice puts the project's id before it, and creates it if " +
        'necessary.',
      minLength: 1,
      maxLength: 500,
      examples: ['7/exports/acme'],
      // For clients that compare what they sent with what is stored.
      'x-below-project': true,
    }),
  },
  keepsFiles: true,
  buffersParts: false,
  isAvailable: ({ fileDestinationRoot }) => fileDestinationRoot !== null,
  validate: ({ directory }, context, { prefix }) => [
    ...checkDirectory(directory, context.fileDestinationRoot),
    ...checkPrefix(prefix),
  ],
  place: ({ directory }) => foldersOf(directory).join('/'),
  enclose,
  open: ({ directory }, _files, { fileDestinationRoot, partBytes }) =>
    // `validate` refuses a config without a root; with an empty root each operation fails.
    openFileDestination(fileDestinationRoot ?? '', foldersOf(directory), partBytes),
});

function enclose(config: DestinationConfig, projectId: number): DestinationConfig {
  const { directory } = config;
  const folder = String(projectId);
  const isInside =
    typeof directory !== 'string' || directory === '' || directory.split('/')[0] === folder;
  return isInside ? config : { ...config, directory: `${folder}/${directory}` };
}

const maxNameBytes = 255;

/** A store takes longer names than a file system. */
function checkPrefix(prefix: string): readonly Problem[] {
  const detail = `Each folder of the prefix must have at most ${maxNameBytes} bytes, because files are on a file system. Use a slash to make folders, or a shorter prefix.`;
  return problemsIn([longestName(prefix) > maxNameBytes, 'prefix', detail]);
}

const foldersOf = (directory: string) => directory.split('/').filter(Boolean);

function checkDirectory(directory: string, root: string | null): readonly Problem[] {
  const problem = (detail: string) => [invalid('directory', detail)];
  if (root === null)
    return problem('FILE_DESTINATION_ROOT is not set. Ask your operator to set it.');
  const segments = directory.split('/');
  const plain = /^(?!\.{1,2}$)[\p{L}\p{N}_.@ -]{1,100}$/u;
  return segments.every((segment) => plain.test(segment) && !segment.startsWith('.sluice-'))
    ? []
    : problem('Use a relative path, such as exports/events, without ., .. or empty parts.');
}
