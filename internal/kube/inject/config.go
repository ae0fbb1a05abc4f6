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

// The keys of the ConfigMap istio-sidecar-injector, and the template that pods get which name none.
const (
	ConfigKey       = "config"
	ValuesKey       = "values"
	sidecarTemplate = "sidecar"
)

// Policy says what becomes of pods that say nothing themselves.
type Policy string

// The policies that a configuration may have.
const (
	Enabled  Policy = "enabled"
	Disabled Policy = "disabled"
)

// Config is the key config of the ConfigMap: who is injected with what.
type Config struct {
	Policy Policy
	// DefaultTemplates are for pods without the annotation inject.istio.io/templates; Aliases are names for several at once.
	DefaultTemplates []string
	Aliases          map[string][]string
	// Never and Always decide about pods that say nothing themselves, Never first.
	Never, Always []labels.Selector
	// Annotations are put on every pod that is injected.
	Annotations map[string]string
	// Texts are all templates by name, as they were written.
	Texts map[string]string
	// Faults is what is wrong with parts of it, of which the rest is used: selectors, and templates by name.
	Faults []error

	templates map[string]*render.Template
	broken    map[string]error
}

// ParseConfig reads the configuration from YAML. A template or selector that is wrong is one of its Faults; an error is a text of
// which nothing can be used. env is what the template function of that name looks up; nil: nothing is set.
func ParseConfig(text []byte, env func(string) string) (*Config, error) {
	var said struct {
		Policy               Policy                 `json:"policy"`
		DefaultTemplates     []string               `json:"defaultTemplates"`
		Templates            map[string]string      `json:"templates"`
		Aliases              map[string][]string    `json:"aliases"`
		NeverInjectSelector  []metav1.LabelSelector `json:"neverInjectSelector"`
		AlwaysInjectSelector []metav1.LabelSelector `json:"alwaysInjectSelector"`
		InjectedAnnotations  map[string]string      `json:"injectedAnnotations"`
	}
	if err := yaml.Unmarshal(text, &said); err != nil {
		return nil, fmt.Errorf("read the injection config: %w", err)
	}
	c := &Config{
		Policy: said.Policy, DefaultTemplates: said.DefaultTemplates, Aliases: said.Aliases, Annotations: said.InjectedAnnotations,
		Texts:     said.Templates,
		templates: map[string]*render.Template{}, broken: map[string]error{},
	}
	if len(c.DefaultTemplates) == 0 {
		c.DefaultTemplates = []string{sidecarTemplate}
	}
	if c.Policy != Enabled && c.Policy != Disabled {
		c.fault(fmt.Errorf("policy %q: want %s or %s; nothing is injected by default", c.Policy, Enabled, Disabled))
		c.Policy = Disabled
	}
	c.Never = c.selectors("neverInjectSelector", said.NeverInjectSelector)
	c.Always = c.selectors("alwaysInjectSelector", said.AlwaysInjectSelector)
	if len(said.Templates) == 0 {
		c.fault(fmt.Errorf("templates: there are none, so that no pod can be injected"))
	}
	for _, name := range slices.Sorted(maps.Keys(said.Templates)) {
		t, err := render.Parse(name, said.Templates[name], env)
		if err != nil {
			c.broken[name] = err
			c.fault(err)
			continue
		}
		c.templates[name] = t
	}
	return c, nil
}

func (c *Config) fault(err error) { c.Faults = append(c.Faults, err) }

// selectors reads label selectors. An empty one, which would select every pod, selects none.
func (c *Config) selectors(field string, list []metav1.LabelSelector) []labels.Selector {
	var out []labels.Selector
	for i := range list {
		s, err := metav1.LabelSelectorAsSelector(&list[i])
		if err != nil {
			c.fault(fmt.Errorf("%s[%d]: %w", field, i, err))
			continue
		}
		if !s.Empty() {
			out = append(out, s)
		}
	}
	return out
}

// Templates gives the names of the templates that can be used, in order.
func (c *Config) Templates() []string { return slices.Sorted(maps.Keys(c.templates)) }

func (c *Config) template(name string) (*render.Template, error) {
	if t := c.templates[name]; t != nil {
		return t, nil
	}
	if err := c.broken[name]; err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("there is no template %q, only %q", name, c.Templates())
}
