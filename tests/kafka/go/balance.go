// Plans groups, one in a JSON line each, by franz-go's own balancers: lines of stdin in, lines of stdout out.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"sort"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

type owned struct {
	Topic     string
	Partition int32
}

func (o *owned) UnmarshalJSON(line []byte) error {
	return json.Unmarshal(line, &[]any{&o.Topic, &o.Partition})
}

func (o owned) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{o.Topic, o.Partition})
}

type member struct {
	ID             string
	Instance       *string
	Rack           *string
	Topics         []string
	Owned          []owned
	Generation     *int32
	UserGeneration json.RawMessage `json:"user_generation"`
}

type group struct {
	Strategy string
	Topics   map[string]int32
	Members  []member
	// The rack of the leader of each partition, which only the consumer tells its balancer.
	LeaderRacks map[string][]string `json:"leader_racks"`
}

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// What a member tells as it joins. Sticky tells what it had in its user data, cooperative-sticky in the subscription.
func metadata(m member, cooperative bool) []byte {
	meta := kmsg.NewConsumerMemberMetadata()
	meta.Version = 3
	meta.Topics = m.Topics
	meta.Rack = m.Rack
	had := map[string][]int32{}
	for _, each := range m.Owned {
		had[each.Topic] = append(had[each.Topic], each.Partition)
	}
	userData := kmsg.NewStickyMemberMetadata()
	if m.Generation != nil {
		meta.Generation, userData.Generation = *m.Generation, *m.Generation
	}
	if m.UserGeneration != nil { // Given: it is another one than the subscription's, or (null) there is none.
		userData.Generation = -1
		if err := json.Unmarshal(m.UserGeneration, &userData.Generation); err != nil {
			panic(err)
		}
	}
	for topic, partitions := range had {
		if cooperative {
			meta.OwnedPartitions = append(meta.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{
				Topic: topic, Partitions: partitions,
			})
		} else {
			userData.CurrentAssignment = append(userData.CurrentAssignment, kmsg.StickyMemberMetadataCurrentAssignment{
				Topic: topic, Partitions: partitions,
			})
		}
	}
	switch {
	case !cooperative && len(m.Owned) > 0:
		meta.UserData = userData.AppendTo(nil)
	case cooperative && userData.Generation >= 0: // Java's clients tell the generation alone.
		meta.UserData = binary.BigEndian.AppendUint32(nil, uint32(userData.Generation))
	}
	return meta.AppendTo(nil)
}

func plan(g group) (map[string][]owned, error) {
	var joined []kmsg.JoinGroupResponseMember
	for _, m := range g.Members {
		each := kmsg.NewJoinGroupResponseMember()
		each.MemberID, each.InstanceID = m.ID, m.Instance
		each.ProtocolMetadata = metadata(m, g.Strategy == "cooperative-sticky")
		joined = append(joined, each)
	}
	// As its consumer does before it balances: static members first.
	sort.Slice(joined, func(i, j int) bool {
		l, r := joined[i], joined[j]
		switch {
		case l.InstanceID != nil && r.InstanceID != nil:
			return *l.InstanceID < *r.InstanceID
		case l.InstanceID != nil || r.InstanceID != nil:
			return l.InstanceID != nil
		}
		return l.MemberID < r.MemberID
	})
	balancer, asked, err := balancers[g.Strategy].MemberBalancer(joined)
	if err != nil {
		return nil, err
	}
	if consumer, ok := balancer.(*kgo.ConsumerBalancer); ok && g.LeaderRacks != nil {
		racks := reflect.ValueOf(consumer).Elem().FieldByName("partitionRacks")
		*(*map[string][]string)(unsafe.Pointer(racks.UnsafeAddr())) = g.LeaderRacks
	}
	// The leader, here the first member, counts topics that it subscribes to itself, also if nobody knows of them.
	partitions := map[string]int32{}
	for topic := range asked {
		if count, known := g.Topics[topic]; known || slices.Contains(g.Members[0].Topics, topic) {
			partitions[topic] = count
		}
	}
	planned, err := balancer.(kgo.GroupMemberBalancerOrError).BalanceOrError(partitions)
	if err != nil {
		return nil, err
	}
	answer := map[string][]owned{}
	for _, each := range planned.IntoSyncAssignment() {
		got, err := kgo.ParseConsumerSyncAssignment(each.MemberAssignment)
		if err != nil {
			return nil, err
		}
		for topic, numbers := range got {
			for _, number := range numbers {
				answer[each.MemberID] = append(answer[each.MemberID], owned{topic, number})
			}
		}
	}
	return answer, nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var g group
		if err := json.Unmarshal(lines.Bytes(), &g); err != nil {
			panic(err)
		}
		answer, err := plan(g)
		if err != nil {
			panic(err)
		}
		if err := out.Encode(answer); err != nil {
			panic(err)
		}
	}
}
