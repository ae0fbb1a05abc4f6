package architecture

import (
	"go/ast"
	"strings"
)

// testType stands for the types of package testing whose methods end the calling goroutine.
const testType = "testing.TB"

// maxTypeSteps bounds the variables and calls that are followed to the type of an expression.
const maxTypeSteps = 8

// structType is a struct type of the tree. Types are named by directory and name:
// "internal/kube/status.lab". A pointer, slice, map or channel has the name of its elements' type.
type structType struct {
	fields   map[string]string // types of the named fields
	embedded []string
}

// variable is how a parameter or local variable of a function is declared: with a type, or by a value.
type variable struct {
	declared ast.Expr
	value    ast.Expr
	result   int // the result of value, if it is a call with several
}

// addTypes collects the struct types of a file.
func (tree *testTree) addTypes(f *ast.File, dir string, imports map[string]string) {
	for _, d := range f.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range decl.Specs {
			spec, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			body, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			t := &structType{fields: map[string]string{}}
			for _, field := range body.Fields.List {
				name := typeName(field.Type, dir, imports)
				if len(field.Names) == 0 {
					t.embedded = append(t.embedded, name)
					t.fields[embeddedName(field.Type)] = name
				}
				for _, n := range field.Names {
					t.fields[n.Name] = name
				}
			}
			tree.types[dir+"."+spec.Name.Name] = t
		}
	}
}

// embeddedName returns the name of the field of an embedded type.
func embeddedName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return embeddedName(x.X)
	case *ast.IndexExpr:
		return embeddedName(x.X)
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}

// typeName returns the name of a type, or "" for a type that is neither of this module nor of package
// testing.
func typeName(e ast.Expr, dir string, imports map[string]string) string {
	switch x := e.(type) {
	case *ast.Ident:
		return dir + "." + x.Name
	case *ast.StarExpr:
		return typeName(x.X, dir, imports)
	case *ast.ArrayType:
		return typeName(x.Elt, dir, imports)
	case *ast.Ellipsis:
		return typeName(x.Elt, dir, imports)
	case *ast.MapType:
		return typeName(x.Value, dir, imports)
	case *ast.ChanType:
		return typeName(x.Value, dir, imports)
	case *ast.IndexExpr: // of a generic type
		return typeName(x.X, dir, imports)
	case *ast.SelectorExpr:
		p, ok := x.X.(*ast.Ident)
		if !ok {
			return ""
		}
		if p.Name == "testing" {
			switch x.Sel.Name {
			case "T", "B", "F", "TB":
				return testType
			}
			return ""
		}
		if where, ours := imports[p.Name]; ours {
			return where + "." + x.Sel.Name
		}
	}
	return ""
}

// variablesOf returns the parameters and local variables of a function, also those of function
// literals in it, by name. Scopes are not distinguished.
func variablesOf(decl *ast.FuncDecl) map[string][]variable {
	all := map[string][]variable{}
	declare := func(e ast.Expr, v variable) {
		if id, ok := e.(*ast.Ident); ok && id.Name != "_" {
			all[id.Name] = append(all[id.Name], v)
		}
	}
	ast.Inspect(decl, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.Field:
			for _, name := range x.Names {
				declare(name, variable{declared: x.Type})
			}
		case *ast.ValueSpec:
			for i, name := range x.Names {
				switch {
				case x.Type != nil:
					declare(name, variable{declared: x.Type})
				case len(x.Values) == len(x.Names):
					declare(name, variable{value: x.Values[i]})
				case len(x.Values) == 1:
					declare(name, variable{value: x.Values[0], result: i})
				}
			}
		case *ast.AssignStmt:
			for i, name := range x.Lhs {
				if len(x.Rhs) == len(x.Lhs) {
					declare(name, variable{value: x.Rhs[i]})
				} else {
					declare(name, variable{value: x.Rhs[0], result: i})
				}
			}
		case *ast.RangeStmt:
			if x.Value != nil {
				declare(x.Value, variable{value: x.X})
			}
		}
		return true
	})
	return all
}

// typeOf returns the name of the type of an expression, or "" if it is not known. It follows
// declarations, not scopes and not the types of packages outside of this module.
func (tree *testTree) typeOf(fn *testFunction, e ast.Expr) string {
	return tree.typeWithin(fn, e, maxTypeSteps)
}

func (tree *testTree) typeWithin(fn *testFunction, e ast.Expr, steps int) string {
	if steps == 0 {
		return ""
	}
	switch x := e.(type) {
	case *ast.Ident:
		for _, v := range fn.variables[x.Name] {
			var name string
			switch {
			case v.declared != nil:
				name = typeName(v.declared, fn.dir, fn.imports)
			case v.result > 0:
				name = tree.resultOf(fn, v.value, v.result, steps-1)
			default:
				name = tree.typeWithin(fn, v.value, steps-1)
			}
			if name != "" {
				return name
			}
		}
	case *ast.ParenExpr:
		return tree.typeWithin(fn, x.X, steps)
	case *ast.StarExpr:
		return tree.typeWithin(fn, x.X, steps)
	case *ast.UnaryExpr:
		return tree.typeWithin(fn, x.X, steps)
	case *ast.IndexExpr:
		return tree.typeWithin(fn, x.X, steps)
	case *ast.CompositeLit:
		return typeName(x.Type, fn.dir, fn.imports)
	case *ast.TypeAssertExpr:
		return typeName(x.Type, fn.dir, fn.imports)
	case *ast.SelectorExpr:
		return tree.fieldOf(tree.typeWithin(fn, x.X, steps-1), x.Sel.Name)
	case *ast.CallExpr:
		return tree.resultOf(fn, x, 0, steps-1)
	}
	return ""
}

// resultOf returns the type of a result of a call.
func (tree *testTree) resultOf(fn *testFunction, e ast.Expr, result, steps int) string {
	call, ok := e.(*ast.CallExpr)
	if !ok || steps == 0 {
		return ""
	}
	if id, ok := call.Fun.(*ast.Ident); ok && (id.Name == "new" || id.Name == "make") && len(call.Args) > 0 {
		return typeName(call.Args[0], fn.dir, fn.imports)
	}
	for _, callee := range tree.calleesWithin(fn, call, steps) {
		if callee.decl.Type.Results == nil {
			continue
		}
		i := 0
		for _, field := range callee.decl.Type.Results.List {
			if i += max(len(field.Names), 1); i > result {
				return typeName(field.Type, callee.dir, callee.imports)
			}
		}
	}
	return ""
}

// fieldOf returns the type of a field of a struct type, also of a promoted one, or "".
func (tree *testTree) fieldOf(name, field string) string {
	t := tree.types[name]
	if t == nil {
		return ""
	}
	if found, ok := t.fields[field]; ok {
		return found
	}
	for _, e := range t.embedded {
		if found := tree.fieldOf(e, field); found != "" {
			return found
		}
	}
	return ""
}

// methodOf returns the method that a struct type declares or promotes, or nil. isTest is true for a
// method of package testing.
func (tree *testTree) methodOf(name, method string) (m *testFunction, isTest bool) {
	if name == testType {
		return nil, true
	}
	t := tree.types[name]
	if t == nil {
		return nil, false
	}
	dir := name[:strings.LastIndexByte(name, '.')]
	for _, m := range tree.byName[dir+"."+method] {
		if r := m.decl.Recv; r != nil && typeName(r.List[0].Type, dir, nil) == name {
			return m, false
		}
	}
	for _, e := range t.embedded {
		if m, isTest := tree.methodOf(e, method); m != nil || isTest {
			return m, isTest
		}
	}
	return nil, false
}
