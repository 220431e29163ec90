import type { Problem } from './problem.ts';

const maxLength = 200;

/** The answer of a model for a tenant key. */
export interface ModelTenant {
  readonly model: string;
  readonly column: string;
  readonly type: string;
  /** True if the column can have the key. */
  readonly isPossible: boolean;
  readonly hasRows: boolean | null;
}

/** Equal for keys that PostgreSQL takes for the same text, uuid or integer: two projects never share rows. */
export function tenantIdentityOf(tenantKey: string): string {
  const uuid = /^\{?[0-9a-f]{4}(?:-?[0-9a-f]{4}){7}\}?$/i;
  if (uuid.test(tenantKey)) return tenantKey.replace(/[{}-]/g, '').toLowerCase();
  const [, sign, digits = ''] =
    /^([+-]?)(0x[0-9a-f_]+|0o[0-7_]+|0b[01_]+|[0-9][0-9_]*)$/i.exec(tenantKey) ?? [];
  const number = digits.replaceAll('_', '');
  if (!/[0-9a-f]$/i.test(number) || /^0[xob]$/i.test(number)) return tenantKey;
  const value = BigInt(number);
  return String(sign === '-' ? -value : value);
}

export function checkTenantKey(tenantKey: string): Problem[] {
  const refuse = (code: Problem['code'], detail: string): Problem[] => [
    { code, detail, attr: 'tenant_key' },
  ];
  if (tenantKey === '') return refuse('blank', 'tenant_key may not be blank.');
  if ([...tenantKey].length > maxLength) {
    return refuse('max_length', `tenant_key may have at most ${maxLength} characters.`);
  }
  if (/^\s|\s$|\p{Cc}|\p{Cs}/u.test(tenantKey)) {
    const what = 'tenant_key contains a control character, or a space at its start or end.';
    return refuse('invalid_input', `${what} Enter the value that the tenant column has.`);
  }
  return [];
}
