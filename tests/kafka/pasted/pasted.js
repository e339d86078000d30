// One consumer of kafkajs with pasted settings: pasted.js <servers> <group> <topic> <file>; it closes with its input.
const { Kafka, PartitionAssigners, logLevel } = require('kafkajs')
const [servers, groupId, topic, file] = process.argv.slice(2)
const lines = require('fs').readFileSync(file, 'utf8').split('\n').filter((line) => line && !line.startsWith('//'))
const settings = new Function('PartitionAssigners', `return {${lines.join(',\n')}}`)(PartitionAssigners)
const kafka = new Kafka({ brokers: servers.split(','), logLevel: logLevel.NOTHING })
const consumer = kafka.consumer({ groupId, ...settings })
async function run() {
  await consumer.connect()
  await consumer.subscribe({ topic })
  await consumer.run({ eachMessage: async () => {} })
}
run().catch((error) => { console.error(error); process.exit(1) })
process.stdin.resume()
process.stdin.on('end', () => consumer.disconnect().then(() => process.exit(0)))
