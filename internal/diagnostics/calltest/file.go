package calltest

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// ParseCases reads a YAML list of cases and sets their defaults (SetDefaults). It returns an error
// if a field is unknown or malformed, or if a name is missing or not unique. Each case must set
// exactly one of From and Into, and As and Address only with Into. A field that needs real calls is
// an error too, and so is one of SetDefaults; both name the case.
func ParseCases(text []byte) ([]*Case, error) {
	var list []*Case
	if err := yaml.UnmarshalStrict(text, &list); err != nil {
		return nil, fmt.Errorf("read a list of cases: %w", err)
	}
	names := map[string]bool{}
	for i, c := range list {
		switch {
		case c == nil || c.Name == "":
			return nil, fmt.Errorf("case %d has no name", i+1)
		case names[c.Name]:
			return nil, fmt.Errorf("two cases have the name %q", c.Name)
		}
		names[c.Name] = true
		if err := c.check(); err != nil {
			return nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
		if err := c.SetDefaults(); err != nil {
			return nil, fmt.Errorf("case %q: %w", c.Name, err)
		}
	}
	return list, nil
}

// check returns an error for the first field that has no effect in a file of cases, or if not
// exactly one of From and Into is set. As and Address require Into. SetDefaults must not have been
// called.
func (c *Case) check() error {
	real := map[string]bool{
		"times": c.Times != 0, "answer": c.Answer != "", "expect.attempts": c.Expect.Attempts != 0,
		"expect.sticky": c.Expect.Sticky, "expect.atMost": c.Expect.AtMost != 0,
	}
	for _, field := range []string{"times", "answer", "expect.attempts", "expect.sticky", "expect.atMost"} {
		if real[field] {
			return fmt.Errorf("%s needs real calls, and cases are evaluated on configuration", field)
		}
	}
	switch {
	case c.From == "" && c.Into == "":
		return fmt.Errorf("neither from nor into is set")
	case c.From != "" && c.Into != "":
		return fmt.Errorf("from and into are both set")
	case c.Into == "" && (c.As != "" || c.Address.IsValid()):
		return fmt.Errorf("as and address have an effect with into only")
	}
	return nil
}
