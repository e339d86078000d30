// Groups of Go consumers: leaders <library> <bootstrap servers>; lines as java/Leaders.java reads them.
package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"strings"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

type member struct{ group, topic, assignor, client string }

func main() {
	brokers := strings.Split(os.Args[2], ",")
	consume := map[string]func([]string, member){"franz-go": franz, "kafka-go": segmentio, "Sarama": ibm}[os.Args[1]]
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadString('\n')
		if err != nil || line == "\n" {
			break
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		go consume(brokers, member{fields[0], fields[1], fields[2], fields[3]})
	}
	io.Copy(io.Discard, input) // whoever started us holds it open
}

func franz(brokers []string, it member) {
	balancer := map[string]func() kgo.GroupBalancer{
		"range": kgo.RangeBalancer, "roundrobin": kgo.RoundRobinBalancer,
		"sticky": kgo.StickyBalancer, "cooperative-sticky": kgo.CooperativeStickyBalancer,
	}[it.assignor]
	options := []kgo.Opt{
		kgo.SeedBrokers(brokers...), kgo.ConsumerGroup(it.group), kgo.ConsumeTopics(it.topic), kgo.Balancers(balancer()),
	}
	if it.client != "" {
		options = append(options, kgo.ClientID(it.client))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	for {
		client.PollFetches(context.Background())
	}
}

func segmentio(brokers []string, it member) {
	balancer := map[string]kafka.GroupBalancer{
		"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{},
	}[it.assignor]
	config := kafka.ReaderConfig{
		Brokers: brokers, GroupID: it.group, Topic: it.topic, GroupBalancers: []kafka.GroupBalancer{balancer},
	}
	if it.client != "" {
		config.Dialer = &kafka.Dialer{ClientID: it.client}
	}
	reader := kafka.NewReader(config)
	for {
		reader.ReadMessage(context.Background())
	}
}

type handler struct{}

func (handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (handler) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for range claim.Messages() {
	}
	return nil
}

func ibm(brokers []string, it member) {
	config := sarama.NewConfig()
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{map[string]func() sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange, "roundrobin": sarama.NewBalanceStrategyRoundRobin,
		"sticky": sarama.NewBalanceStrategySticky, "cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
	}[it.assignor]()}
	if it.client != "" {
		config.ClientID = it.client
	}
	group, err := sarama.NewConsumerGroup(brokers, it.group, config)
	if err != nil {
		panic(err)
	}
	for {
		group.Consume(context.Background(), []string{it.topic}, handler{})
	}
}
