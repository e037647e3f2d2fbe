package jsonstream

import (
	"slices"
	"strings"
)

// Node is a place in a JSON text as a set of paths sees it. A nil Node is a place that no path passes through, and its methods say so.
// Nodes do not change and may be shared.
type Node struct {
	members []member
	any     *Node // Where "*" leads for names that are not among members.
	items   *Node
	matches []int
	ends    []int
}

type member struct {
	name string
	node *Node
}

// Compile makes one tree of many paths and returns its root.
//
// A path is the names of members with dots between, as in "error.innererror.code". "[]" after a name goes on to every item of an array
// there ("responses[].error.code"), and at the very start it stands for a text that is an array ("[].error"). The name "*" stands for
// every member. "{}" at the end of a path means the object there, which is reported when it ends. Names that hold a dot, and the name "*"
// itself, cannot be written.
func Compile(paths ...string) *Node {
	root := &Node{}
	for i, path := range paths {
		path, object := strings.CutSuffix(path, "{}")
		at := root
		for j, name := range strings.Split(path, ".") {
			bare, arrays := splitItems(name)
			if bare != "" || j > 0 || arrays == 0 {
				at = at.grow(bare)
			}
			for range arrays {
				if at.items == nil {
					at.items = &Node{}
				}
				at = at.items
			}
		}
		if object {
			at.ends = append(at.ends, i)
		} else {
			at.matches = append(at.matches, i)
		}
	}
	root.spread()
	return root
}

// splitItems takes every "[]" off the end of a name and counts them.
func splitItems(name string) (bare string, arrays int) {
	for strings.HasSuffix(name, "[]") {
		name = strings.TrimSuffix(name, "[]")
		arrays++
	}
	return name, arrays
}

func (n *Node) grow(name string) *Node {
	if name == "*" {
		if n.any == nil {
			n.any = &Node{}
		}
		return n.any
	}
	i := slices.IndexFunc(n.members, func(m member) bool { return m.name == name })
	if i < 0 {
		i = len(n.members)
		n.members = append(n.members, member{name, &Node{}})
	}
	return n.members[i].node
}

// spread adds what "*" matches to the members that are named beside it, so that every place in a text is a single node.
func (n *Node) spread() {
	if n == nil {
		return
	}
	for _, m := range n.members {
		m.node.merge(n.any)
		m.node.spread()
	}
	n.any.spread()
	n.items.spread()
}

func (n *Node) merge(other *Node) {
	if other == nil {
		return
	}
	n.matches = append(n.matches, other.matches...)
	n.ends = append(n.ends, other.ends...)
	for _, m := range other.members {
		n.grow(m.name).merge(m.node)
	}
	if other.any != nil {
		n.grow("*").merge(other.any)
	}
	if other.items != nil {
		if n.items == nil {
			n.items = &Node{}
		}
		n.items.merge(other.items)
	}
}

// Member returns the node of a member, or nil.
func (n *Node) Member(name []byte) *Node {
	node, _ := n.member(name)
	return node
}

// member also returns the name as a string where that costs nothing, else "".
func (n *Node) member(name []byte) (node *Node, known string) {
	if n == nil {
		return nil, ""
	}
	for i := range n.members {
		if n.members[i].name == string(name) {
			return n.members[i].node, n.members[i].name
		}
	}
	return n.any, ""
}

// Item returns the node of an array's items, or nil.
func (n *Node) Item() *Node {
	if n == nil {
		return nil
	}
	return n.items
}

// Matches returns the indexes of the paths that end here.
func (n *Node) Matches() []int {
	if n == nil {
		return nil
	}
	return n.matches
}

// opens reports whether a path leads into a container of that kind.
func (n *Node) opens(kind Kind) bool {
	if n == nil {
		return false
	}
	if kind == Array {
		return n.items != nil
	}
	return n.any != nil || len(n.members) > 0 || len(n.ends) > 0
}
