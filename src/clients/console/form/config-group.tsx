import { ConfigField } from './config-field.tsx';
import { configAttr, destinationForm } from './draft.ts';
import type { Field } from './fields.ts';
import { applies, choicesOf, type Group, groupOf, withFormat } from './file-settings.ts';
import type { PartProps } from './part-props.ts';

/** The settings of a part of the form that apply with the other values. @param group null: of all */
export function fieldsOfGroup(
  { description, draft, batchExport }: PartProps,
  group: Group | null,
): readonly Field[] {
  const fields = destinationForm(description, draft.type)?.fields ?? [];
  const formats = description.installation?.file_formats ?? [];
  // Stored ones stay if their fields are empty.
  const needsSecrets = description.installation?.own_credentials === false && batchExport === null;
  return fields
    .filter((field) => (group === null || groupOf(field) === group) && applies(field, draft.values))
    .map((field) => ({
      ...field,
      required: field.required || (needsSecrets && field.kind === 'secret'),
      choices: choicesOf(field, draft.values, formats),
    }));
}

interface Props extends PartProps {
  readonly fields: readonly Field[];
}

/** Inputs of a part of the config. */
export function ConfigFields({ fields, ...props }: Props) {
  const { description, draft, batchExport, errors, onChange } = props;
  const formats = description.installation?.file_formats ?? [];
  return fields.map((field) => (
    <ConfigField
      key={field.name}
      field={field}
      attr={configAttr(field.name)}
      draft={draft}
      error={errors.get(configAttr(field.name))}
      hasSecret={batchExport !== null}
      onChange={onChange}
      {...(field.name === 'file_format' && {
        withValue: (format) => withFormat(draft.values, String(format), formats),
      })}
    />
  ));
}
