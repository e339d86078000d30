"""Kafka's `Graph` as it stands: edges in sorted maps, and every pass of Bellman-Ford over every edge."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from spark_assign.numeric.arrays import IntArray

SOURCE = -1


@dataclass
class Edge:
    """An edge of the residual graph and the one in the other direction."""

    cost: int
    residual: int
    flow: int
    is_forward: bool
    counter: Edge | None = None


class Graph:
    """A residual graph."""

    def __init__(self) -> None:
        self.edges: dict[int, dict[int, Edge]] = {}

    def add(self, source: int, target: int, capacity: int, cost: int, flow: int) -> None:
        """Adds an edge, and the one back."""
        forward = Edge(cost, capacity - flow, flow, is_forward=True)
        backward = Edge(-cost, flow, 0, is_forward=False, counter=forward)
        forward.counter = backward
        self.edges.setdefault(source, {})[target] = forward
        self.edges.setdefault(target, {})[source] = backward

    def push(self, edge: Edge, amount: int) -> None:
        """Pushes flow along an edge."""
        assert edge.counter is not None
        edge.residual -= amount
        edge.counter.residual += amount
        if edge.is_forward:
            edge.flow += amount
        else:
            edge.counter.flow -= amount

    def sort(self) -> None:
        """Sorts nodes and neighbors."""
        self.edges = {node: dict(sorted(self.edges[node].items())) for node in sorted(self.edges)}

    def maximize(self, sink: int) -> int:
        """Finds a maximum flow; returns it."""
        total = 0
        while True:
            parent: dict[int, int] = {SOURCE: SOURCE}
            queue = deque([SOURCE])
            while queue and sink not in parent:
                node = queue.popleft()
                for neighbor, edge in self.edges[node].items():
                    if neighbor not in parent and edge.residual > 0:
                        parent[neighbor] = node
                        queue.append(neighbor)
            if sink not in parent:
                return total
            path, node = [], sink
            while node != SOURCE:
                path.append(self.edges[parent[node]][node])
                node = parent[node]
            amount = min(edge.residual for edge in path)
            for edge in path:
                self.push(edge, amount)
            total += amount

    def cancel_cycle(self) -> bool:
        """Cancels one negative cycle, if there is one."""
        distance = dict.fromkeys(self.edges, 0)
        parent: dict[int, int] = {}
        found = None
        for number in range(len(self.edges) + 1):
            for node, neighbors in self.edges.items():
                for neighbor, edge in neighbors.items():
                    if edge.residual > 0 and distance[neighbor] > distance[node] + edge.cost:
                        distance[neighbor], parent[neighbor] = distance[node] + edge.cost, node
                        if number == len(self.edges):
                            found = neighbor
                            break
                if found is not None:
                    break
        if found is None:
            return False
        visited = set()
        while found not in visited:
            visited.add(found)
            found = parent[found]
        cycle, node = [], found
        while True:
            cycle.append(self.edges[parent[node]][node])
            node = parent[node]
            if node == found:
                break
        amount = min(edge.residual for edge in cycle)
        for edge in cycle:
            self.push(edge, amount)
        return True


def find_cheapest_owners(cost: IntArray, owner: IntArray, groups: IntArray | None) -> IntArray:
    """The same as `find_cheapest_owners`."""
    num_tasks, num_clients = cost.shape
    number = np.bincount(owner, minlength=num_clients).tolist()
    graph = Graph()
    if groups is None:
        sink = num_tasks + num_clients
        for task in range(num_tasks):
            graph.add(SOURCE, task, 1, 0, 1)
            for client in range(num_clients):
                graph.add(task, num_tasks + client, 1, int(cost[task, client]), int(owner[task] == client))
        for client in range(num_clients):
            graph.add(num_tasks + client, sink, number[client], 0, number[client])
        graph.sort()
        first = [num_tasks] * num_tasks
    else:
        sizes = np.bincount(groups)
        second = num_tasks + num_clients * len(sizes)
        sink = second + num_clients
        first = [num_tasks + num_clients * group for group in groups.tolist()]
        for task in range(num_tasks):
            graph.add(SOURCE, task, 1, 0, 0)
            for client in range(num_clients):
                graph.add(task, first[task] + client, 1, int(cost[task, client]), 0)
        for client in range(num_clients):
            for group, size in enumerate(sizes.tolist()):
                capacity = int(np.ceil(number[client] * 1.0 / num_tasks * size))
                graph.add(num_tasks + num_clients * group + client, second + client, capacity, 0, 0)
            graph.add(second + client, sink, number[client], 0, 0)
        graph.sort()
        assert graph.maximize(sink) == num_tasks
    while graph.cancel_cycle():
        pass
    tasks = range(num_tasks)
    return np.array([next(c for c in range(num_clients) if graph.edges[task][first[task] + c].flow) for task in tasks])
