/*
 * Asks librdkafka's own assignors: a golden row (JSON) a line in, the same row with what they answer out.
 *
 * Built within librdkafka's source, in src/, after ./configure && make -C src librdkafka.a:
 *
 *     gcc -O1 -I. librdkafka_assignors.c librdkafka.a -Wl,--allow-multiple-definition -lm -lz -lpthread -ldl -o ask
 *     ./ask < rows > answers
 *
 * Members take the way of a JoinGroup response: written as librdkafka writes a subscription, and read by what its
 * leader reads them with (version 3; a member without a rack writes an empty one). Topics are those of a metadata
 * response, in the order of `topics`. Each row is asked in a process of its own, as some end it: `expect` is null, and
 * `error` is "crash" (a signal) or "hang" (ten seconds).
 */
#include "rdkafka_cgrp.c"
#include "cJSON.h"
#include <sys/wait.h>

static cJSON *of(const cJSON *row, const char *name) {
        return cJSON_GetObjectItemCaseSensitive(row, name);
}

static const char *text(const cJSON *row, const char *name) {
        return cJSON_GetStringValue(of(row, name));
}

static rd_kafka_metadata_internal_t *metadata_of(const cJSON *row) {
        cJSON *topic, *all = of(row, "replica_racks");
        int t = 0, count = cJSON_GetArraySize(of(row, "topics"));
        rd_kafka_metadata_topic_t *topics = rd_calloc(count + 1, sizeof(*topics));
        cJSON_ArrayForEach(topic, of(row, "topics")) {
                topics[t].topic           = topic->string;
                topics[t++].partition_cnt = topic->valueint;
        }
        rd_kafka_metadata_internal_t *told =
            rd_kafka_metadata_get_internal(rd_kafka_metadata_new_topic_mock(topics, count, -1, 0));
        for (t = 0; t < count; t++) {
                int p = 0;
                cJSON *replicas;
                cJSON_ArrayForEach(replicas, of(all, told->metadata.topics[t].topic)) {
                        cJSON *rack;
                        rd_list_t *racks = rd_list_new(0, NULL);
                        if (p >= told->metadata.topics[t].partition_cnt)
                                break;
                        cJSON_ArrayForEach(rack, replicas) {
                                if (rack->valuestring)
                                        rd_list_add(racks, rack->valuestring);
                        }
                        rd_list_deduplicate(&racks, rd_strcmp2);
                        told->topics[t].partitions[p].racks_cnt = rd_list_cnt(racks);
                        told->topics[t].partitions[p++].racks   = (char **)racks->rl_elems;
                }
        }
        return told;
}

static rd_kafkap_bytes_t *written(const cJSON *member) {
        cJSON *each, *generation = of(member, "generation");
        rd_list_t *topics = rd_list_new(0, NULL);
        rd_kafka_topic_partition_list_t *owned = rd_kafka_topic_partition_list_new(0);
        const char *rack = text(member, "rack");
        cJSON_ArrayForEach(each, of(member, "topics")) {
                rd_list_add(topics, rd_kafka_topic_info_new(each->valuestring, 1));
        }
        cJSON_ArrayForEach(each, of(member, "owned")) {
                rd_kafka_topic_partition_list_add(owned, cJSON_GetArrayItem(each, 0)->valuestring,
                                                  cJSON_GetArrayItem(each, 1)->valueint);
        }
        return rd_kafka_consumer_protocol_member_metadata_new(topics, NULL, 0, owned,
                                                              cJSON_IsNumber(generation) ? generation->valueint : -1,
                                                              rd_kafkap_str_new(rack ? rack : "", -1));
}

static cJSON *ask(rd_kafka_t *rk, const cJSON *row) {
        char said[512] = "";
        cJSON *member, *expect = cJSON_CreateObject();
        int i, p, count = 0;
        rd_kafka_group_member_t *members = rd_calloc(cJSON_GetArraySize(of(row, "members")) + 1, sizeof(*members));
        rd_kafka_assignor_t *assignor    = rd_kafka_assignor_find(rk, text(row, "strategy"));
        cJSON_ArrayForEach(member, of(row, "members")) {
                rd_kafka_group_member_t *each = &members[count];
                each->rkgm_member_id          = rd_kafkap_str_new(text(member, "id"), -1);
                each->rkgm_group_instance_id  = rd_kafkap_str_new(text(member, "instance"), -1);
                each->rkgm_generation         = -1;
                rd_list_init(&each->rkgm_eligible, 0, NULL);
                cJSON_AddItemToObject(expect, text(member, "id"), cJSON_CreateArray());
                if (rd_kafka_group_MemberMetadata_consumer_read(NULL, each, written(member)))
                        continue;
                each->rkgm_assignment = rd_kafka_topic_partition_list_new(0);
                count++;
        }
        if (rd_kafka_assignor_run(rk->rk_cgrp, assignor, &metadata_of(row)->metadata, members, count, said, 512))
                abort();
        if (assignor->rkas_protocol == RD_KAFKA_REBALANCE_PROTOCOL_COOPERATIVE)
                rd_kafka_cooperative_protocol_adjust_assignment(rk->rk_cgrp, members, count);
        for (i = 0; i < count; i++) {
                rd_kafka_topic_partition_list_t *given = members[i].rkgm_assignment;
                rd_kafka_topic_partition_list_sort(given, NULL, NULL);
                for (p = 0; p < given->cnt; p++) {
                        cJSON *pair = cJSON_CreateArray();
                        cJSON_AddItemToArray(pair, cJSON_CreateString(given->elems[p].topic));
                        cJSON_AddItemToArray(pair, cJSON_CreateNumber(given->elems[p].partition));
                        cJSON_AddItemToArray(of(expect, members[i].rkgm_member_id->str), pair);
                }
        }
        return expect;
}

int main(void) {
        char *line = NULL, said[512];
        size_t size = 0;
        rd_kafka_conf_t *conf = rd_kafka_conf_new();
        rd_kafka_conf_set(conf, "group.id", "g", said, sizeof(said));
        rd_kafka_conf_set(conf, "partition.assignment.strategy", "range,roundrobin", said, sizeof(said));
        rd_kafka_conf_set_log_cb(conf, NULL);
        rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, said, sizeof(said));
        while (getline(&line, &size, stdin) > 0) {
                int ended;
                cJSON *row = cJSON_Parse(line);
                pid_t child;
                fflush(stdout);
                if ((child = fork()) == 0) {
                        alarm(10);
                        fclose(stderr);
                        cJSON_AddItemToObject(row, "expect", ask(rk, row));
                        printf("%s\n", cJSON_PrintUnformatted(row));
                        fflush(stdout);
                        _exit(0);
                }
                waitpid(child, &ended, 0);
                if (ended == 0)
                        continue;
                cJSON_AddNullToObject(row, "expect");
                cJSON_AddStringToObject(row, "error", WTERMSIG(ended) == SIGALRM ? "hang" : "crash");
                printf("%s\n", cJSON_PrintUnformatted(row));
        }
        fflush(stdout);
        _exit(0);
}
