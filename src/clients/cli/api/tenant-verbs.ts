import { recordLines, recordsLines } from '../answer.ts';
import {
  collectProjectIds,
  readList,
  readProjectId,
  readSeconds,
  readTime,
  readUuid,
} from '../arguments.ts';
import { misused } from '../deps.ts';
import type { Json } from './json.ts';
import { type Field, get, hidden, list, type More, patch, post, type Verbs } from './verb.ts';

const name: Field = ['--name <name>', 'its name', { isRequired: true }];
const confirmed: Field = [
  '--confirm <name>',
  'its name, to confirm what is deleted',
  { isRequired: true },
];
const organization: Field = ['--organization <id>', 'the organization that owns it', readUuid];
const requiredOrganization: Field = [
  organization[0],
  organization[1],
  { read: readUuid, isRequired: true },
];
const noOrganization = 'There is no organization {organization_id}.';
const ofOrganization = {
  args: { organization_id: ['<id>', "the organization's id", readUuid] },
  notFound: noOrganization,
} as const;
const ofProject = {
  args: { project_id: ['<id>', "the project's id", readProjectId] },
  notFound: 'There is no project {project_id}.',
} as const;
const ofKey = {
  args: { key_id: ['<id>', "the key's id", readUuid] },
  notFound: 'There is no such key.',
} as const;
const disable = {
  about: 'refuse its keys and pause its exports; live runs finish',
  sends: { disabled: true },
} as const;
const enable = {
  about: 'take its keys again; exports that disable has paused continue',
  sends: { disabled: false },
} as const;

const oneOrganization = '/api/admin/organizations/{organization_id}';
const oneProject = '/api/admin/projects/{project_id}';
const ofOperators: Field = [
  '--operator',
  'of an operator instead: all organizations over /api/admin, metrics and queues; no rows of a customer',
];

/** A key is of an organization or of an operator. */
function pathOfKeys(path: string, { organization_id: id, operator = false }: Json): string {
  if ((id === undefined) !== operator) throw misused('Name either --organization or --operator.');
  return operator ? '/api/admin/keys' : path;
}

const rename = { about: 'give it another name', options: { name } } as const;

const deletions = '/admin/offboardings';

/** Starts the deletion of a tenant; a worker does it. */
const deletion = (more: More<Json>) =>
  hidden('post', deletions, {
    ...more,
    lines: (answer) => [
      ...recordLines(factsOf(answer)),
      `A worker deletes it: \`sluice offboardings show ${answer.id}\` shows the progress.`,
    ],
  });

const factsOf = ({ remaining_files: _, ...facts }: Json): Json => facts;

function offboardingLines(answer: Json): readonly string[] {
  return [
    ...recordLines(factsOf(answer)),
    ...['', 'Files that stay at the destinations:'],
    ...recordsLines(answer.remaining_files as readonly Json[]),
  ];
}

export const tenantVerbs: Verbs = {
  'organizations create': post('/api/admin/organizations', {
    about: 'create an organization',
    options: { name },
  }),
  'organizations list': list('/api/admin/organizations', {
    about: 'list the organizations by name',
    options: { search: ['--search <text>', 'part of a name, or an id'] },
    list: 'all',
  }),
  'organizations rename': patch(oneOrganization, { ...ofOrganization, ...rename }),
  'organizations usage': list('/api/admin/usage', {
    about: 'list the customers with their rows and bytes of a month',
    options: {
      search: ['--search <text>', 'part of a name, or an id'],
      month: ['--month <month>', 'such as 2024-03, in UTC (default: the present month)'],
    },
    list: 'all',
  }),
  'organizations disable': patch(oneOrganization, { ...ofOrganization, ...disable }),
  'organizations enable': patch(oneOrganization, { ...ofOrganization, ...enable }),
  'organizations delete': deletion({
    about: 'delete an organization with everything of it; its files stay in its buckets',
    ...ofOrganization,
    options: { confirm_name: confirmed },
  }),
  'projects create': post(`${oneOrganization}/projects`, {
    about: 'create a project; its id is the team_id of all it owns',
    options: {
      organization_id: requiredOrganization,
      name,
      tenant_key: [
        '--tenant-key <value>',
        "what the tenant column of a model has for this project: text, a UUID or a number. It cannot change (default: the project's id)",
      ],
    },
    notFound: noOrganization,
    lines: ({ warnings, ...project }) => [
      ...recordLines(project),
      ...warnings.map((warning) => `Warning: ${warning}`),
    ],
  }),
  'projects list': get(`${oneOrganization}/projects`, {
    about: 'list the projects of an organization, oldest first',
    options: { organization_id: requiredOrganization },
    notFound: noOrganization,
  }),
  'projects rename': patch(oneProject, { ...ofProject, ...rename }),
  'projects disable': patch(oneProject, { ...ofProject, ...disable }),
  'projects enable': patch(oneProject, { ...ofProject, ...enable }),
  'projects delete': deletion({
    about: 'delete a project with everything of it; its files stay in its buckets',
    ...ofProject,
    options: { organization_id: requiredOrganization, confirm_name: confirmed },
  }),
  'keys create': post(`${oneOrganization}/keys`, {
    about: 'issue a key; it is shown only once',
    options: {
      organization_id: organization,
      project_ids: [
        '--project <id>',
        'allow only this project; may be repeated',
        collectProjectIds,
      ],
      scopes: [
        '--scopes <list>',
        'such as batch_export:read,plugin:write,file:read, of an operator operator:read,operator:write, or *',
        { read: readList, isRequired: true },
      ],
      expires_at: ['--expires-at <time>', 'time of expiry, ISO 8601', readTime],
      name: ['--name <name>', 'name of the key', { isRequired: true }],
    },
    flags: { operator: ofOperators },
    at: pathOfKeys,
    notFound: noOrganization,
  }),
  'keys list': get(`${oneOrganization}/keys`, {
    about: 'list the keys, oldest first',
    options: { organization_id: organization },
    flags: { operator: ofOperators },
    at: pathOfKeys,
    notFound: noOrganization,
  }),
  'keys revoke': post('/api/admin/keys/{key_id}/revoke', {
    about: 'revoke a key immediately',
    ...ofKey,
  }),
  'keys rotate': post('/api/admin/keys/{key_id}/rotate', {
    about: 'issue a key with the same rights; the old key stays valid for the overlap',
    ...ofKey,
    options: {
      overlap_seconds: [
        '--overlap <seconds>',
        'how long both are valid',
        { read: readSeconds, initial: 3_600 },
      ],
    },
  }),
  'offboardings list': hidden('get', deletions, {
    about: 'list the newest 1000, newest first',
    json: ({ results }) => (results as readonly Json[]).map(factsOf),
  }),
  'offboardings show': hidden('get', `${deletions}/{id}`, {
    about: 'show how far a deletion is, and the files that stay at the destinations',
    args: { id: ['<id>', "the offboarding's id", readUuid] },
    notFound: 'There is no offboarding {id}. See `sluice offboardings list`.',
    lines: offboardingLines,
  }),
};
