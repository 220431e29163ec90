import { query } from 'chdb';

// ClickHouse's engine in a process of its own: a JSON list of statements comes in, the rows of the last one go out.
let given = '';
for await (const chunk of process.stdin) given += chunk;
let answer = '';
for (const statement of JSON.parse(given))
  answer = query(statement, 'JSONCompactEachRow').toString();
process.stdout.write(answer);
