package inject

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/meshpilot/meshpilot/internal/kube/inject/render"
)

// The keys of the ConfigMap istio-sidecar-injector, and the default template.
const (
	ConfigKey       = "config"
	ValuesKey       = "values"
	sidecarTemplate = "sidecar"
)

// Policy is the default for pods without a label or annotation.
type Policy string

// The valid policies.
const (
	Enabled  Policy = "enabled"
	Disabled Policy = "disabled"
)

// Config is the key config of the ConfigMap: which pods are injected, with which templates.
type Config struct {
	Policy Policy
	// DefaultTemplates apply to pods without the annotation inject.istio.io/templates. Aliases are
	// names for several templates.
	DefaultTemplates []string
	Aliases          map[string][]string
	// Never and Always select pods without a label or annotation. Never takes precedence.
	Never, Always []labels.Selector
	// Annotations are added to every injected pod.
	Annotations map[string]string
	// Texts are the sources of all templates by name.
	Texts map[string]string
	// Faults are the errors of invalid selectors, templates and policies, which have no effect; the
	// rest of the configuration is used.
	Faults []error

	templates map[string]*render.Template
	invalid   map[string]error
}

// ParseConfig returns the injection configuration in a YAML text; without default templates, the
// default is sidecar. Invalid templates, selectors and policies, and an empty list of templates,
// are added to Faults and have no effect; an invalid policy becomes Disabled. It returns an error
// only if the YAML is invalid. env is the lookup of the template function env; if nil, no variable
// is set.
func ParseConfig(text []byte, env func(string) string) (*Config, error) {
	var parsed struct {
		Policy               Policy                 `json:"policy"`
		DefaultTemplates     []string               `json:"defaultTemplates"`
		Templates            map[string]string      `json:"templates"`
		Aliases              map[string][]string    `json:"aliases"`
		NeverInjectSelector  []metav1.LabelSelector `json:"neverInjectSelector"`
		AlwaysInjectSelector []metav1.LabelSelector `json:"alwaysInjectSelector"`
		InjectedAnnotations  map[string]string      `json:"injectedAnnotations"`
	}
	if err := yaml.Unmarshal(text, &parsed); err != nil {
		return nil, fmt.Errorf("parse the injection configuration: %w", err)
	}
	c := &Config{
		Policy:           parsed.Policy,
		DefaultTemplates: parsed.DefaultTemplates,
		Aliases:          parsed.Aliases,
		Annotations:      parsed.InjectedAnnotations,
		Texts:            parsed.Templates,
		templates:        map[string]*render.Template{},
		invalid:          map[string]error{},
	}
	if len(c.DefaultTemplates) == 0 {
		c.DefaultTemplates = []string{sidecarTemplate}
	}
	if c.Policy != Enabled && c.Policy != Disabled {
		c.addFault(fmt.Errorf("policy %q: want %s or %s; nothing is injected by default", c.Policy, Enabled, Disabled))
		c.Policy = Disabled
	}
	c.Never = c.parseSelectors("neverInjectSelector", parsed.NeverInjectSelector)
	c.Always = c.parseSelectors("alwaysInjectSelector", parsed.AlwaysInjectSelector)
	if len(parsed.Templates) == 0 {
		c.addFault(fmt.Errorf("templates: the list is empty; no pod can be injected"))
	}
	for _, name := range slices.Sorted(maps.Keys(parsed.Templates)) {
		t, err := render.Parse(name, parsed.Templates[name], env)
		if err != nil {
			c.invalid[name] = err
			c.addFault(err)
			continue
		}
		c.templates[name] = t
	}
	return c, nil
}

func (c *Config) addFault(err error) { c.Faults = append(c.Faults, err) }

// parseSelectors returns the label selectors of a field. Invalid ones are added to Faults. Empty
// ones, which would select every pod, are dropped.
func (c *Config) parseSelectors(field string, list []metav1.LabelSelector) []labels.Selector {
	var out []labels.Selector
	for i := range list {
		s, err := metav1.LabelSelectorAsSelector(&list[i])
		if err != nil {
			c.addFault(fmt.Errorf("%s[%d]: %w", field, i, err))
			continue
		}
		if !s.Empty() {
			out = append(out, s)
		}
	}
	return out
}

// Templates returns the sorted names of the valid templates.
func (c *Config) Templates() []string { return slices.Sorted(maps.Keys(c.templates)) }

// lookupTemplate returns a valid template by name. It returns the parse error of an invalid one,
// and an error that lists the valid ones if it does not exist.
func (c *Config) lookupTemplate(name string) (*render.Template, error) {
	if t := c.templates[name]; t != nil {
		return t, nil
	}
	if err := c.invalid[name]; err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("unknown template %q, available: %q", name, c.Templates())
}
