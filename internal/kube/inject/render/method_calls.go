package render

import (
	"slices"
	"strconv"
	"text/template/parse"
)

// methodFunction is the function by which templates call methods. Templates do not name it.
const methodFunction = "callMethod"

// rewriteMethodCalls replaces the method calls below a node by calls of methodFunction:
//
//	.ProxyConfig.Concurrency.GetValue       (callMethod .ProxyConfig.Concurrency "GetValue")
//	(toDate "2006" "2026").Format "06"      callMethod (toDate "2006" "2026") "Format" "06"
//
// The types of values are not known, so every name for which isMethodName returns true is taken for
// a method; callMethod also finds fields.
func rewriteMethodCalls(tree *parse.Tree, n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, x := range n.Nodes {
			rewriteMethodCalls(tree, x)
		}
	case *parse.ActionNode:
		rewriteMethodCalls(tree, n.Pipe)
	case *parse.IfNode:
		rewriteBranch(tree, &n.BranchNode)
	case *parse.WithNode:
		rewriteBranch(tree, &n.BranchNode)
	case *parse.RangeNode:
		rewriteBranch(tree, &n.BranchNode)
	case *parse.TemplateNode:
		rewriteMethodCalls(tree, n.Pipe)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, c := range n.Cmds {
			rewriteCommand(tree, c)
		}
	}
}

// rewriteBranch rewrites the method calls in the condition and both branches of n, in place.
func rewriteBranch(tree *parse.Tree, n *parse.BranchNode) {
	rewriteMethodCalls(tree, n.Pipe)
	rewriteMethodCalls(tree, n.List)
	rewriteMethodCalls(tree, n.ElseList)
}

// rewriteCommand rewrites the operands of a command. If the first one is a method, the others are
// its arguments.
func rewriteCommand(tree *parse.Tree, c *parse.CommandNode) {
	for i, a := range c.Args {
		c.Args[i] = rewriteOperand(tree, a)
	}
	if p, ok := c.Args[0].(*parse.PipeNode); ok && isMethodCall(p) {
		c.Args = append(slices.Clone(p.Cmds[0].Args), c.Args[1:]...)
	}
}

// isMethodCall reports whether a pipeline only calls methodFunction.
func isMethodCall(p *parse.PipeNode) bool {
	if len(p.Cmds) != 1 || len(p.Decl) > 0 {
		return false
	}
	first, ok := p.Cmds[0].Args[0].(*parse.IdentifierNode)
	return ok && first.Ident == methodFunction
}

// rewriteOperand returns the operand with its method calls (isMethodName) replaced by calls of a
// template function. Names after the method become fields of its result. Pipes and chains are
// changed in place, other nodes are returned as they are.
func rewriteOperand(tree *parse.Tree, n parse.Node) parse.Node {
	switch n := n.(type) {
	case *parse.PipeNode:
		rewriteMethodCalls(tree, n)
	case *parse.FieldNode:
		if i := slices.IndexFunc(n.Ident, isMethodName); i >= 0 {
			var receiver parse.Node = &parse.DotNode{NodeType: parse.NodeDot, Pos: n.Pos}
			if i > 0 {
				receiver = &parse.FieldNode{NodeType: parse.NodeField, Pos: n.Pos, Ident: n.Ident[:i]}
			}
			return callsOf(tree, receiver, n.Ident[i:])
		}
	case *parse.VariableNode:
		if i := slices.IndexFunc(n.Ident[1:], isMethodName); i >= 0 {
			receiver := &parse.VariableNode{NodeType: parse.NodeVariable, Pos: n.Pos, Ident: n.Ident[:i+1]}
			return callsOf(tree, receiver, n.Ident[i+1:])
		}
	case *parse.ChainNode:
		n.Node = rewriteOperand(tree, n.Node)
		if i := slices.IndexFunc(n.Field, isMethodName); i >= 0 {
			receiver := n.Node
			if i > 0 {
				receiver = &parse.ChainNode{NodeType: parse.NodeChain, Pos: n.Pos, Node: n.Node, Field: n.Field[:i]}
			}
			return callsOf(tree, receiver, n.Field[i:])
		}
	}
	return n
}

// callsOf returns a call of methodFunction with the receiver and names[0]. Further names become
// fields of its result, in which method names are replaced as well.
func callsOf(tree *parse.Tree, receiver parse.Node, names []string) parse.Node {
	at := receiver.Position()
	called := &parse.PipeNode{NodeType: parse.NodePipe, Pos: at, Cmds: []*parse.CommandNode{{
		NodeType: parse.NodeCommand,
		Pos:      at,
		Args: []parse.Node{
			parse.NewIdentifier(methodFunction).SetPos(at).SetTree(tree),
			receiver,
			&parse.StringNode{NodeType: parse.NodeString, Pos: at, Quoted: strconv.Quote(names[0]), Text: names[0]},
		},
	}}}
	if len(names) == 1 {
		return called
	}
	return rewriteOperand(tree, &parse.ChainNode{NodeType: parse.NodeChain, Pos: at, Node: called, Field: names[1:]})
}
