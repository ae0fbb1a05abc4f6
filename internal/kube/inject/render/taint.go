package render

import (
	"maps"
	"slices"
	"text/template"
	"text/template/parse"
)

// source says whose a value is: data is the whole Data, of which some fields are the operator's; operator and pod are values
// of one of them. Where both had a part, it is the pod's.
type source int

const (
	operator source = iota
	data
	pod
)

// check puts the check of scalars behind every action that prints something of the pod's.
func check(t *template.Template) {
	w := &walk{templates: map[string]*parse.Tree{}, variables: map[string]source{}, found: map[*parse.ActionNode]*parse.Tree{}}
	for _, x := range t.Templates() {
		w.templates[x.Name()] = x.Tree
	}
	for { // a loop may print what it assigns further down
		before := maps.Clone(w.variables)
		w.called = map[call]bool{}
		w.tree(call{t.Name(), data})
		if maps.Equal(before, w.variables) {
			break
		}
	}
	for action, tree := range w.found {
		name := scalarFunction
		switch {
		case composed(action.Pipe):
			name = wholeFunction
		case quotes(action.Pipe):
			name = quotedFunction
		}
		function := parse.NewIdentifier(name).SetPos(action.Pos).SetTree(tree)
		action.Pipe.Cmds = append(action.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: action.Pos, Args: []parse.Node{function}})
	}
}

// call is a template that is run with a dot of that source.
type call struct {
	template string
	dot      source
}

// walk follows values through a template. It knows variables by name only: one that holds a value of the pod's anywhere does
// so everywhere.
type walk struct {
	templates map[string]*parse.Tree
	variables map[string]source
	called    map[call]bool
	found     map[*parse.ActionNode]*parse.Tree // the tree that each is in
}

func (w *walk) tree(c call) {
	t := w.templates[c.template]
	if t == nil || t.Root == nil || w.called[c] {
		return
	}
	w.called[c] = true
	w.list(scope{tree: t, root: c.dot, dot: c.dot}, t.Root)
}

// scope says where the values of $ and of the dot come from, at one place in a template.
type scope struct {
	tree      *parse.Tree
	root, dot source
}

func (w *walk) list(s scope, l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, n := range l.Nodes {
		w.node(s, n)
	}
}

func (w *walk) node(s scope, n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		w.list(s, n)
	case *parse.ActionNode:
		from := w.pipe(s, n.Pipe)
		if len(n.Pipe.Decl) == 0 && from != operator {
			w.found[n] = s.tree
		}
	case *parse.IfNode:
		w.pipe(s, n.Pipe)
		w.list(s, n.List)
		w.list(s, n.ElseList)
	case *parse.WithNode:
		inner := s
		inner.dot = w.pipe(s, n.Pipe)
		w.list(inner, n.List)
		w.list(s, n.ElseList)
	case *parse.RangeNode:
		inner := s
		inner.dot = w.pipe(s, n.Pipe)
		w.list(inner, n.List)
		w.list(s, n.ElseList)
	case *parse.TemplateNode:
		dot := operator
		if n.Pipe != nil {
			dot = w.pipe(s, n.Pipe)
		}
		w.tree(call{n.Name, dot})
	}
}

// pipe gives the source of a pipeline's value, and notes it for the variables that it is assigned to.
func (w *walk) pipe(s scope, p *parse.PipeNode) source {
	if p == nil {
		return operator
	}
	from := operator
	for _, c := range p.Cmds {
		from = max(from, w.command(s, c))
	}
	for _, v := range p.Decl {
		w.variables[v.Ident[0]] = max(w.variables[v.Ident[0]], from)
	}
	return from
}

func (w *walk) command(s scope, c *parse.CommandNode) source {
	if len(c.Args) == 1 {
		return w.value(s, c.Args[0])
	}
	from := operator
	for _, a := range c.Args {
		if x := w.value(s, a); x != operator {
			from = pod // a function of the whole Data may give anything
		}
	}
	return from
}

func (w *walk) value(s scope, n parse.Node) source {
	switch n := n.(type) {
	case *parse.DotNode:
		return s.dot
	case *parse.FieldNode:
		return field(s.dot, n.Ident)
	case *parse.VariableNode:
		from := w.variables[n.Ident[0]]
		if n.Ident[0] == "$" {
			from = s.root
		}
		return field(from, n.Ident[1:])
	case *parse.ChainNode:
		return field(w.value(s, n.Node), n.Field)
	case *parse.PipeNode:
		return w.pipe(s, n)
	}
	return operator // literals, and functions without arguments
}

// field gives the source of a field of a value.
func field(of source, names []string) source {
	switch {
	case of != data || len(names) == 0:
		return of
	case operators(names[0]):
		return operator
	}
	return pod
}

// composed says whether a pipeline prints a whole value as YAML or JSON, which is right as it is, apart from quotes around it.
func composed(p *parse.PipeNode) bool {
	for i, c := range p.Cmds {
		name := ""
		switch first := c.Args[0].(type) {
		case *parse.IdentifierNode:
			name = first.Ident
		case *parse.PipeNode:
			if i == 0 && len(c.Args) == 1 && composed(first) {
				continue
			}
		}
		if i == 0 && !slices.Contains([]string{
			"toYaml", "toJSON", "toJson", "toRawJson", "toPrettyJson", "mustToJson", "mustToRawJson", "mustToPrettyJson",
			"structToJSON", "protoToJSON", "toJsonMap",
		}, name) {
			return false
		}
		if i > 0 && !slices.Contains([]string{"indent", "nindent", "trim"}, name) {
			return false
		}
	}
	return len(p.Cmds) > 0
}

// quotes says whether a pipeline ends with putting quotes around its value.
func quotes(p *parse.PipeNode) bool {
	last, ok := p.Cmds[len(p.Cmds)-1].Args[0].(*parse.IdentifierNode)
	return ok && (last.Ident == "quote" || last.Ident == "squote")
}
