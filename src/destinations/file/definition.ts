import { Type } from 'typebox';
import type { Problem } from '../../domain/problem.ts';
import { defineDestination } from '../define-destination.ts';
import { openFileDestination } from './destination.ts';

export const fileDefinition = defineDestination({
  type: 'File',
  description: 'Files on the machine of the workers.',
  properties: {
    directory: Type.String({
      description: 'Directory below FILE_DESTINATION_ROOT. Sluice creates it if it is missing.',
      minLength: 1,
      maxLength: 500,
      examples: ['exports/acme'],
    }),
  },
  keepsFiles: true,
  buffersParts: false,
  validate: ({ directory }, context) => checkDirectory(directory, context.fileDestinationRoot),
  place: ({ directory }) => foldersOf(directory).join('/'),
  open: ({ directory }, _files, { fileDestinationRoot, partBytes }) =>
    // `validate` refuses a config without a root; with an empty root each operation fails.
    openFileDestination(fileDestinationRoot ?? '', foldersOf(directory), partBytes),
});

const foldersOf = (directory: string) => directory.split('/').filter(Boolean);

function checkDirectory(directory: string, root: string | null): readonly Problem[] {
  const problem = (detail: string): readonly Problem[] => [
    { attr: 'directory', code: 'invalid_input', detail },
  ];
  if (root === null)
    return problem('FILE_DESTINATION_ROOT is not set. Ask your operator to set it.');
  const segments = directory.split('/');
  const plain = /^(?!\.{1,2}$)[\p{L}\p{N}_.@ -]{1,100}$/u;
  return segments.every((segment) => plain.test(segment) && !segment.startsWith('.sluice-'))
    ? []
    : problem('Use a relative path, such as exports/events, without ., .. or empty parts.');
}
