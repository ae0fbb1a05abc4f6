package migration

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"sigs.k8s.io/yaml"
)

// Level is how much a difference matters to an installation.
type Level string

// The levels, the most severe first.
const (
	// NotServed is for objects, fields and settings without effect.
	NotServed Level = "not-served"
	// Different is for objects, fields and settings with another effect than with istiod.
	Different Level = "different"
	// Information is for differences that usually need no change of the installation.
	Information Level = "information"
)

// Levels returns all levels, the most severe first. They are NotServed, Different and Information.
func Levels() []Level { return []Level{NotServed, Different, Information} }

// AtLeast reports whether l is as severe as other, or more severe.
func (l Level) AtLeast(other Level) bool {
	return slices.Index(Levels(), l) <= slices.Index(Levels(), other)
}

// Section is a group of differences of one area.
type Section struct {
	Title       string       `json:"title"`
	Differences []Difference `json:"differences"`
}

// Difference is one intentional difference from istiod.
type Difference struct {
	// ID is a unique name in lower case, with hyphens.
	ID string `json:"id"`
	// Where is the situation. Istiod and Here are the behaviour of both control planes in it, and
	// Why is the reason of the difference.
	Where  string `json:"where"`
	Istiod string `json:"istiod"`
	Here   string `json:"here"`
	Why    string `json:"why,omitempty"`
	// Level is the level of its findings, by default Information.
	Level Level `json:"level,omitempty"`
	// Do is the switch, successor or other advice, as the end of a sentence. It may be empty.
	Do string `json:"do,omitempty"`
	// Applies selects what the difference applies to. Without selectors it applies to every
	// installation.
	Applies []Selector `json:"applies,omitempty"`
	// Requires limits the difference to installations in which one of these selectors matches. If
	// empty, there is no limit.
	Requires []Selector `json:"requires,omitempty"`
}

// Selector selects fields of objects, a variable of istiod, or a flag of istiod.
type Selector struct {
	// Kinds are kinds of objects. Pod includes the templates of Deployments and similar kinds;
	// MeshConfig and MeshNetworks are in the ConfigMap of istiod.
	Kinds []string `json:"kinds,omitempty"`
	// Fields are paths in the object: spec.http[*].match[*].headers[*], metadata.labels[NAME]. [*]
	// is each element of a list or map. A field that does not exist is not selected.
	Fields []string `json:"fields,omitempty"`
	// Environment is the name of an environment variable of istiod, and Argument that of a flag.
	Environment string `json:"environment,omitempty"`
	Argument    string `json:"argument,omitempty"`
	// When is a condition in CEL; newEnvironment lists its variables. A condition that cannot be
	// evaluated, because a field does not exist, is false.
	When string `json:"when,omitempty"`
	// Shared is a CEL expression for a list of keys, perhaps nested. An object is selected if
	// another one has one of its keys. For keys "KEY=VALUE", the other one must have the key with
	// another value.
	Shared string `json:"shared,omitempty"`

	when, shared cel.Program
}

//go:embed differences/*.yaml
var files embed.FS

// readSections reads and compiles the embedded files. It returns an error that names the file or
// the difference for an unknown field, an unknown level, an ID that is not unique, or a selector
// without subject or with an invalid expression.
var readSections = sync.OnceValues(func() ([]Section, error) {
	entries, err := files.ReadDir("differences")
	if err != nil {
		return nil, err
	}
	var list []Section
	seen := map[string]bool{}
	for _, e := range entries {
		text, err := files.ReadFile("differences/" + e.Name())
		if err != nil {
			return nil, err
		}
		var s Section
		if err := yaml.UnmarshalStrict(text, &s); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
		for i := range s.Differences {
			d := &s.Differences[i]
			if err := d.compile(); err != nil {
				return nil, fmt.Errorf("%s: %s: %w", e.Name(), d.ID, err)
			}
			if seen[d.ID] {
				return nil, fmt.Errorf("%s: %s: the ID is not unique", e.Name(), d.ID)
			}
			seen[d.ID] = true
		}
		list = append(list, s)
	}
	return list, nil
})

// Sections returns all differences, in the order of the documentation, or an error if the embedded
// files are invalid.
func Sections() ([]Section, error) { return readSections() }

// compile compiles the expressions of d's selectors, and sets an empty Level to Information. It
// returns an error if d has no ID, its level is unknown, or a selector has no subject or an invalid
// expression.
func (d *Difference) compile() error {
	if d.Level == "" {
		d.Level = Information
	}
	if d.ID == "" {
		return errors.New("no id")
	}
	if !slices.Contains(Levels(), d.Level) {
		return fmt.Errorf("level %q", d.Level)
	}
	for _, list := range [][]Selector{d.Applies, d.Requires} {
		for i := range list {
			if err := list[i].compile(); err != nil {
				return err
			}
		}
	}
	return nil
}

// compile compiles the expressions of s. It returns an error if s has no subject, or an expression
// is invalid.
func (s *Selector) compile() (err error) {
	if len(s.Fields) == 0 && s.Environment == "" && s.Argument == "" {
		return errors.New("a selector has no fields, environment or argument")
	}
	if s.when, err = compileExpression(s.When); err != nil {
		return err
	}
	s.shared, err = compileExpression(s.Shared)
	return err
}

// Markdown returns the differences as the tables of docs/adr/0007-differences-from-istiod.md.
// Differences without a reason have an empty last column.
func Markdown(sections []Section) string {
	var b strings.Builder
	for _, s := range sections {
		fmt.Fprintf(&b, "### %s\n\n| where | istiod | here | why |\n|---|---|---|---|\n", s.Title)
		for _, d := range s.Differences {
			why := d.Why
			if why != "" {
				why += " "
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s|\n", d.Where, d.Istiod, d.Here, why)
		}
		b.WriteString("\n")
	}
	return b.String()
}
