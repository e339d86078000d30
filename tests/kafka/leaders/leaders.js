// Groups of kafkajs consumers: NODE_PATH=<node_modules> node leaders.js <bootstrap servers>; lines as Leaders.java.
const { Kafka, logLevel } = require("kafkajs");
const lines = require("readline").createInterface({ input: process.stdin });

lines.on("line", async (line) => {
  if (!line) return;
  const [groupId, topic, , clientId] = line.split("\t");
  const named = clientId ? { clientId } : {};
  const kafka = new Kafka({ brokers: process.argv[2].split(","), logLevel: logLevel.NOTHING, ...named });
  const consumer = kafka.consumer({ groupId });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic] });
  await consumer.run({ eachMessage: async () => {} });
});
lines.on("close", () => process.exit(0));
