import type { ReactNode } from 'react';
import { Choice } from './choice.tsx';
import { ConfigGroup, fieldsOfGroup, needsToBeSeen } from './config-group.tsx';
import { destinationForm, typesOf, withType } from './draft.ts';
import { type Field, isOptional } from './fields.ts';
import { fieldProps } from './form-words.ts';
import { offered } from './openapi.ts';
import type { PartProps } from './part-props.ts';

/** An endpoint is optional only for AWS: for every other store it comes first. */
const isMore = (field: Field) => isOptional(field) && field.name !== 'endpoint_url';

/** The destination's own fields, from its schema. */
export function DestinationFields(props: PartProps & { readonly children: ReactNode }) {
  const { description, draft, batchExport, errors, onChange } = props;
  const here = description.installation;
  const more = fieldsOfGroup(props, 'destination').filter(isMore);
  const opened = needsToBeSeen(props, more);
  const types = offered(typesOf(description), here?.destinations, draft.type);
  return (
    <section className="card panel">
      <h2>Where</h2>
      <Choice
        {...fieldProps('destination__type', errors)}
        value={draft.type}
        choices={types.map((type) => [type, type])}
        disabled={batchExport !== null}
        onChange={(type) => onChange(withType(description, draft, type))}
        help={`${destinationForm(description, draft.type)?.description ?? ''}${batchExport ? ' It cannot change. For another type, create another export.' : ''}`}
      />
      <ConfigGroup {...props} group="destination" only={(field) => !isMore(field)} />
      {here && <Rules {...props} />}
      {more.length > 0 && (
        <details open={opened || undefined}>
          <summary>More settings</summary>
          <ConfigGroup {...props} group="destination" only={isMore} />
        </details>
      )}
      {props.children}
    </section>
  );
}

/** What this installation asks of credentials and endpoints. */
function Rules({ description, draft, batchExport }: PartProps) {
  const here = description.installation;
  const fields = destinationForm(description, draft.type)?.fields ?? [];
  const has = (test: (field: Field) => boolean) => fields.some(test);
  const rules = [
    has(({ kind }) => kind === 'secret') &&
      (here?.own_credentials
        ? 'Without credentials, those of this installation are used.'
        : 'This installation does not share its own credentials: enter an access key.'),
    has(({ kind }) => kind === 'secret') &&
      batchExport !== null &&
      'A stored secret stays if its field is empty. To test other settings than the saved ones, enter it again.',
    has(({ name }) => name === 'endpoint_url') &&
      (here?.private_endpoints
        ? 'Endpoints must be public, or be allowed by your operator.'
        : 'Endpoints must be public: no private network is allowed in this installation.'),
  ];
  const text = rules.filter(Boolean).join(' ');
  return text === '' ? null : <p className="help">{text}</p>;
}
