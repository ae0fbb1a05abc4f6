package apicoverage

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// goTest is a test of Go that a line names as its case, with the text that belongs to it.
type goTest struct {
	folder string
	// values are the package's constants and variables of tests, which may be the tables of the test.
	values map[string]ast.Node
	// words are the names and literals of the test's body and tables, and the content of the files in
	// testdata that they name. Comments are left out.
	words strings.Builder
	read  map[string]bool // names in values that words has
}

// checkGoTest returns an error unless the Go test is valid as a case: it must be in a file of tests
// in the folder, and its body or a table of it must name the field, the one above it, and the value if
// field has one, each as a word.
func checkGoTest(folder, test, field string) error {
	g := goTest{folder: folder, values: map[string]ast.Node{}, read: map[string]bool{}}
	body, err := g.parse(test)
	if err != nil {
		return err
	}
	if body == nil {
		return fmt.Errorf("no %s", test)
	}
	g.add(body)
	for _, words := range fieldWords(field) {
		whole := regexp.MustCompile(`(^|[^A-Za-z0-9])(` + strings.Join(words, "|") + `)($|[^A-Za-z0-9])`)
		if !whole.MatchString(g.words.String()) {
			return fmt.Errorf("neither the body nor a table of %s names %s", test, words[0])
		}
	}
	return nil
}

// fieldWords returns the words that name the last two elements of a field's path, as JSON and Go spell
// them, and its value, if any. One of each group is required.
func fieldWords(field string) (list [][]string) {
	path, value, _ := strings.Cut(field, "=")
	elements := strings.Split(path, ".")
	for _, name := range elements[max(0, len(elements)-2):] {
		list = append(list, []string{name, strings.ToUpper(name[:1]) + name[1:]})
	}
	if value != "" {
		list = append(list, []string{value})
	}
	return list
}

// parse reads the tests of the folder into g.values, and returns the body of the test, or nil if
// there is no such test.
func (g *goTest) parse(test string) (*ast.BlockStmt, error) {
	paths, err := filepath.Glob(filepath.Join(g.folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var body *ast.BlockStmt
	for _, p := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == test {
					body = d.Body
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if v, ok := s.(*ast.ValueSpec); ok {
						for _, name := range v.Names {
							g.values[name.Name] = v
						}
					}
				}
			}
		}
	}
	return body, nil
}

// add adds the words of a node, of the values that it names, and of the files in testdata.
func (g *goTest) add(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			fmt.Fprintln(&g.words, n.Name)
			if v, ok := g.values[n.Name]; ok && !g.read[n.Name] {
				g.read[n.Name] = true
				g.add(v)
			}
		case *ast.BasicLit:
			text, err := strconv.Unquote(n.Value)
			if err != nil {
				text = n.Value // a number
			}
			fmt.Fprintln(&g.words, text)
			if strings.HasPrefix(text, "testdata/") {
				g.addFiles(text)
			}
		}
		return true
	})
}

// addFiles adds the content of the files that a pattern names. It ignores what it cannot read.
func (g *goTest) addFiles(pattern string) {
	paths, _ := filepath.Glob(filepath.Join(g.folder, filepath.FromSlash(pattern)))
	slices.Sort(paths)
	for _, p := range paths {
		if text, err := os.ReadFile(p); err == nil {
			g.words.Write(text)
		}
	}
}
