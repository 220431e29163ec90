import { Type } from 'typebox';

/** The two ways to the same exports: by the organization, and by the project. */
export interface Family {
  readonly prefix: string;
  readonly tag: string;
  /** Parameters of the prefix. */
  readonly params: Record<string, ReturnType<typeof Type.String>>;
  /** A name that is unique among both families' operations. */
  operation(name: string): string;
}

const current = '`@current` is the only one that the key is for.';

export const organizationFamily: Family = {
  prefix: '/api/organizations/:organization_id',
  tag: 'Batch exports of an organization',
  params: { organization_id: Type.String({ description: `The organization's id; ${current}` }) },
  operation: (name) => `${name}OfOrganization`,
};

export const projectFamily: Family = {
  prefix: '/api/projects/:project_id',
  tag: 'Batch exports of a project',
  params: { project_id: Type.String({ description: `The project's id; ${current}` }) },
  operation: (name) => name,
};
