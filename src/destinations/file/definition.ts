import { Type } from 'typebox';
import type { Problem } from '../../domain/problem.ts';
import type { DestinationDefinition } from '../destination.ts';
import { fileProperties, validateFileConfig } from '../file-config.ts';
import { FileDestination } from './destination.ts';

const fileConfigSchema = Type.Object(
  {
    directory: Type.String({
      description: 'Directory below the FILE_DESTINATION_ROOT; made where missing.',
      minLength: 1,
      maxLength: 500,
      examples: ['exports/acme'],
    }),
    ...fileProperties,
  },
  { additionalProperties: false, description: 'Files on the machine of the workers.' },
);

export const fileDefinition: DestinationDefinition = {
  type: 'File',
  configSchema: fileConfigSchema,
  validate: (config, context) => [
    ...checkDirectory(String(config.directory), context.fileDestinationRoot),
    ...validateFileConfig(config),
  ],
  place: ({ directory }) => String(directory).split('/').filter(Boolean).join('/'),
  open: (config, context) =>
    new FileDestination(
      // `validate` has seen to it; an empty root is none and fails each operation.
      context.fileDestinationRoot ?? '',
      String(config.directory).split('/').filter(Boolean),
      context.partBytes,
    ),
};

function checkDirectory(directory: string, root: string | null): readonly Problem[] {
  const problem = (detail: string): readonly Problem[] => [
    { attr: 'directory', code: 'invalid_input', detail },
  ];
  if (root === null) return problem('This installation has no FILE_DESTINATION_ROOT.');
  const segments = directory.split('/');
  const plain = /^(?!\.{1,2}$)[\p{L}\p{N}_.@ -]{1,100}$/u;
  return segments.every((segment) => plain.test(segment) && !segment.startsWith('.sluice-'))
    ? []
    : problem('Must be a relative path of plain names, without . and .. and doubled slashes.');
}
