import { Client } from 'pg';
import { createEmptyDatabase } from './database.ts';
import { useStage } from './use-stage.ts';

/** An empty database for the tests of a file, and one session in it with these settings. */
export const useSession = (settings: string) =>
  useStage(async () => {
    const database = await createEmptyDatabase();
    const client = new Client(database.url);
    await client.connect();
    await client.query(settings);
    const drop = async () => {
      await client.end();
      await database.drop();
    };
    return { url: database.url, client, drop };
  });
