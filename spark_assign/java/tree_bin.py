"""Computes the iteration order of a bucket that `HashMap` keeps as a tree (`HashMap.TreeNode`).

The tree is for lookups; iteration follows the list that its nodes also form. But the tree changes that list: a new node
is inserted after its parent in the tree, and the root is moved to the front.

    Java's method                   here
    treeify, moveRootToFront        Tree(…): the list stays as it was, but for the root
    putTreeVal                      put: after the parent
    removeTreeNode                  remove: out of the list; few nodes become a linked list again
    split                           split: two lists, in their order; six or fewer are linked again

The tree is ordered by the spread hash as a *signed* number, then by `compareTo` of the keys. Keys that are not
`Comparable` (for example `Optional`) are ordered by `System.identityHashCode`, which differs in every process: what
depends on it cannot be decided (`IdentityDecides`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Generic, NamedTuple, TypeVar

Key = TypeVar("Key")

_UNTREEIFY_THRESHOLD = 6
_SIGN = 1 << 31


class IdentityDecides(Exception):
    """Java would order two keys by their identity hash code, which differs in every process."""


class Entry(NamedTuple, Generic[Key]):
    """A key, its spread hash (unsigned), and a value that compares as the key; None if keys are not `Comparable`."""

    key: Key
    spread: int
    rank: Any


class _Node(Generic[Key]):
    __slots__ = ("entry", "left", "next", "order", "parent", "prev", "red", "right")

    def __init__(self, entry: Entry[Key]) -> None:
        self.entry = entry
        signed = entry.spread - (1 << 32) if entry.spread & _SIGN else entry.spread
        self.order = (signed, entry.rank)
        self.left: _Node[Key] | None = None
        self.right: _Node[Key] | None = None
        self.parent: _Node[Key] | None = None
        self.next: _Node[Key] | None = None
        self.prev: _Node[Key] | None = None
        self.red = False


class Tree(Generic[Key]):
    """The tree of one bucket."""

    def __init__(self, entries: Iterable[Entry[Key]]) -> None:
        """Builds the tree of these keys, in the order of the list (`treeify`)."""
        self._of: dict[Key, _Node[Key]] = {}
        self._root: _Node[Key] | None = None
        self._first: _Node[Key] | None = None
        last: _Node[Key] | None = None
        for entry in entries:
            node = _Node(entry)
            self._of[entry.key] = node
            if last is None:
                self._first = self._root = node
            else:
                last.next, node.prev = node, last
                self._insert(node)
            last = node
        self._move_root_to_front()

    def __iter__(self) -> Iterator[Key]:
        node = self._first
        while node is not None:
            yield node.entry.key
            node = node.next

    def __len__(self) -> int:
        return len(self._of)

    def put(self, entry: Entry[Key]) -> None:
        """Adds a key that is not present (`putTreeVal`)."""
        node = _Node(entry)
        self._of[entry.key] = node
        parent = self._insert(node)
        after = parent.next
        node.prev, node.next, parent.next = parent, after, node
        if after is not None:
            after.prev = node
        self._move_root_to_front()

    def remove(self, key: Key) -> bool:
        """Removes a key (`removeTreeNode`). Returns False if the remaining few keys are a linked list from now on."""
        node = self._of.pop(key)
        before, after = node.prev, node.next
        if before is None:
            self._first = after
        else:
            before.next = after
        if after is not None:
            after.prev = before
        root = self._root
        assert root is not None
        if root.right is None or root.left is None or root.left.left is None:
            return False
        self._unlink(node)
        self._move_root_to_front()
        return True

    def split(self, bit: int) -> tuple[Bucket[Key], Bucket[Key]]:
        """Returns the lower and the upper bucket that replace this one when the table doubles; `bit` separates them."""
        entries = [self._of[key].entry for key in self]
        low = [entry for entry in entries if not entry.spread & bit]
        high = [entry for entry in entries if entry.spread & bit]
        is_unsplit = not (low and high)  # then the tree moves as it is
        return self._bucket(low, is_unsplit), self._bucket(high, is_unsplit)

    def _bucket(self, entries: list[Entry[Key]], is_unsplit: bool) -> Bucket[Key]:
        if len(entries) <= _UNTREEIFY_THRESHOLD:
            return [entry.key for entry in entries]
        return self if is_unsplit else Tree(entries)

    # --- the tree -------------------------------------------------------------------------------------------

    def _insert(self, node: _Node[Key]) -> _Node[Key]:
        """Inserts a node into the tree, and returns its parent before rebalancing."""
        at = self._root
        assert at is not None
        while True:
            if at.order[0] == node.order[0] and (at.order[1] is None or at.order[1] == node.order[1]):
                raise IdentityDecides
            goes_left = node.order < at.order
            below = at.left if goes_left else at.right
            if below is None:
                break
            at = below
        node.parent = at
        if goes_left:
            at.left = node
        else:
            at.right = node
        self._balance_insertion(node)
        return at

    def _move_root_to_front(self) -> None:
        """Makes the root the first node of the bucket (Java: `TreeNode.moveRootToFront`)."""
        root, first = self._root, self._first
        if root is None or root is first:
            return
        before, after = root.prev, root.next
        if after is not None:
            after.prev = before
        if before is not None:
            before.next = after
        if first is not None:
            first.prev = root
        root.next, root.prev, self._first = first, None, root

    def _replace(self, parent: _Node[Key] | None, old: _Node[Key], new: _Node[Key] | None) -> None:
        """Replaces a child of a parent (or the root). The caller sets the parent of the new child."""
        if parent is None:
            self._root = new
        elif parent.left is old:
            parent.left = new
        else:
            parent.right = new

    def _rotate_left(self, node: _Node[Key] | None) -> None:
        if node is None or (up := node.right) is None:
            return
        node.right = up.left
        if up.left is not None:
            up.left.parent = node
        up.parent = node.parent
        self._replace(node.parent, node, up)
        if up.parent is None:
            up.red = False
        up.left, node.parent = node, up

    def _rotate_right(self, node: _Node[Key] | None) -> None:
        if node is None or (up := node.left) is None:
            return
        node.left = up.right
        if up.right is not None:
            up.right.parent = node
        up.parent = node.parent
        self._replace(node.parent, node, up)
        if up.parent is None:
            up.red = False
        up.right, node.parent = node, up

    def _balance_insertion(self, node: _Node[Key]) -> None:
        """Restores the rules of a red-black tree after an insertion (Java: `TreeNode.balanceInsertion`)."""
        node.red = True
        while True:
            parent = node.parent
            if parent is None:
                node.red = False
                self._root = node
                return
            grand = parent.parent
            if not parent.red or grand is None:
                return
            on_left = parent is grand.left
            uncle = grand.right if on_left else grand.left
            if _red(uncle):
                assert uncle is not None
                uncle.red = parent.red = False
                grand.red = True
                node = grand
                continue
            if node is (parent.right if on_left else parent.left):
                node = parent
                (self._rotate_left if on_left else self._rotate_right)(node)
                parent = node.parent
                grand = None if parent is None else parent.parent
            if parent is not None:
                parent.red = False
                if grand is not None:
                    grand.red = True
                    (self._rotate_right if on_left else self._rotate_left)(grand)

    def _unlink(self, node: _Node[Key]) -> None:
        """Removes a node from the tree. If it has two children, it first trades places with its successor."""
        if node.left is not None and node.right is not None:
            successor = node.right
            while successor.left is not None:
                successor = successor.left
            self._swap(node, successor)
        replacement = node.left if node.left is not None else node.right
        if replacement is None:
            if not node.red:
                self._balance_deletion(node)
            if node.parent is not None:
                self._replace(node.parent, node, None)
            node.parent = None
            return
        replacement.parent = node.parent
        self._replace(node.parent, node, replacement)
        if node.parent is None:
            replacement.red = False
        node.left = node.right = node.parent = None
        if not node.red:
            self._balance_deletion(replacement)

    def _swap(self, node: _Node[Key], successor: _Node[Key]) -> None:
        """Swaps the places and the colors of a node and its successor, which has no left child."""
        node.red, successor.red = successor.red, node.red
        below, above, left, right = successor.right, node.parent, node.left, node.right
        assert left is not None
        assert right is not None
        if successor is right:
            node.parent, successor.right = successor, node
        else:
            node.parent = successor.parent
            self._replace(successor.parent, successor, node)
            successor.right, right.parent = right, successor
        node.left, node.right = None, below
        if below is not None:
            below.parent = node
        successor.left, left.parent = left, successor
        successor.parent = above
        self._replace(above, node, successor)

    def _balance_deletion(self, node: _Node[Key]) -> None:
        """Restores the rules of a red-black tree after a removal (Java: `TreeNode.balanceDeletion`)."""
        while node is not self._root:
            parent = node.parent
            if parent is None:
                node.red = False
                self._root = node
                return
            if node.red:
                node.red = False
                return
            on_left = parent.left is node
            near, far = (self._rotate_left, self._rotate_right) if on_left else (self._rotate_right, self._rotate_left)
            sibling = parent.right if on_left else parent.left
            if _red(sibling):
                assert sibling is not None
                sibling.red, parent.red = False, True
                near(parent)
                parent = node.parent
                assert parent is not None
                sibling = parent.right if on_left else parent.left
            if sibling is None:
                node = parent
                continue
            inner, outer = (sibling.left, sibling.right) if on_left else (sibling.right, sibling.left)
            if not _red(inner) and not _red(outer):
                sibling.red = True
                node = parent
                continue
            if not _red(outer):
                assert inner is not None
                inner.red, sibling.red = False, True
                far(sibling)
                sibling = parent.right if on_left else parent.left
                assert sibling is not None
            sibling.red = parent.red
            outer = sibling.right if on_left else sibling.left
            if outer is not None:
                outer.red = False
            parent.red = False
            near(parent)
            return


def _red(node: _Node[Any] | None) -> bool:
    return node is not None and node.red


Bucket = list[Key] | Tree[Key]
"""The keys of a bucket in iteration order, as a list or as a tree."""
