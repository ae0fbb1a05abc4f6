package helmvalues

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Finding is a value of an installation that a chart does not take.
type Finding struct {
	// Name is the path of the value.
	Name string
	// Reason is the reason of the table for a rejected value, and empty for an unknown name.
	Reason string
	// Similar are the names at the same place that begin with the same letter, or all of them if
	// none does. It is empty for a rejected value.
	Similar []string
}

// Check returns the values that a chart rejects or does not know, sorted by name. It does not
// examine types. The key global may have values of any of the charts, because several charts are
// usually installed with one file.
func Check(chart string, values map[string]any) ([]Finding, error) {
	table, err := Values(chart)
	if err != nil {
		return nil, err
	}
	root := buildTree(table)
	for _, other := range Charts() {
		rows, err := Values(other)
		if err != nil {
			return nil, err
		}
		for name := range buildTree(rows).children["global"].children {
			if root.children["global"].children[name] == nil {
				root.children["global"].children[name] = &node{value: &Value{Type: "any"}}
			}
		}
	}
	var list []Finding
	for name, v := range values {
		below, isMap := v.(map[string]any)
		if isMap && (name == internalDefaults || name == legacyPrefix(chart)) {
			list = append(list, root.findings("", below)...)
			continue
		}
		list = append(list, root.findings("", map[string]any{name: v})...)
	}
	slices.SortFunc(list, func(a, b Finding) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// node is a level of the tree of names. A leaf has a value, any other node has children.
type node struct {
	children map[string]*node
	value    *Value
}

func buildTree(table []Value) *node {
	root := &node{children: map[string]*node{"global": {children: map[string]*node{}}}}
	for i := range table {
		n := root
		for key := range strings.SplitSeq(table[i].Name, ".") {
			if n.children == nil {
				n.children = map[string]*node{}
			}
			if n.children[key] == nil {
				n.children[key] = &node{}
			}
			n = n.children[key]
		}
		n.value = &table[i]
	}
	return root
}

func (n *node) findings(prefix string, values map[string]any) []Finding {
	var list []Finding
	for name, v := range values {
		child := n.children[name]
		below, isMap := v.(map[string]any)
		switch {
		case child == nil:
			list = append(list, Finding{Name: prefix + name, Similar: similarNames(name, slices.Sorted(maps.Keys(n.children)))})
		case child.value == nil && isMap:
			list = append(list, child.findings(prefix+name+".", below)...)
		case child.value != nil:
			if reason := child.value.rejection(v); reason != "" {
				list = append(list, Finding{Name: prefix + name, Reason: reason})
			}
		}
	}
	return list
}

// rejection returns the reason why the value is rejected if it is set so. It returns "" for a value
// that is honoured, or not set: null or an empty string.
func (v *Value) rejection(set any) string {
	if reason := v.RejectedValues[fmt.Sprint(set)]; reason != "" {
		return reason
	}
	accepts := func(a any) bool { return isEqual(a, set) }
	if v.Rejected == "" || set == nil || set == "" || slices.ContainsFunc(v.Accepts, accepts) {
		return ""
	}
	return v.Rejected
}

// isEqual compares decoded values. Numbers are equal if they are written alike.
func isEqual(a, b any) bool {
	return reflect.DeepEqual(a, b) || fmt.Sprintf("%T", a) != "string" && fmt.Sprint(a) == fmt.Sprint(b)
}

// similarNames returns the names that begin with the letter of name, of either case. It returns all
// of them if none does, or if there are at most twelve.
func similarNames(name string, known []string) []string {
	var list []string
	for _, k := range known {
		if name != "" && strings.EqualFold(k[:1], name[:1]) {
			list = append(list, k)
		}
	}
	if len(known) <= 12 || len(list) == 0 {
		return known
	}
	return list
}
