package migration

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/meshpilot/meshpilot/docs"
	"github.com/meshpilot/meshpilot/internal/model/retired"
	"github.com/meshpilot/meshpilot/internal/model/unread"
)

// istiod is a container of istiod, with its settings.
type istiod struct {
	subject     *subject
	environment []setting
	arguments   []setting
}

// setting is a variable or a flag, with the path of its field in the subject. value is empty for
// variables whose value comes from another object.
type setting struct{ name, value, path string }

// readIstiod returns the container that runs istiod in a template of pods, or nil if there is none
// or s is no such template. It is the container with the argument discovery, or the name discovery
// and an image of pilot; the first one counts.
func readIstiod(s *subject) *istiod {
	if s.within == "" || s.text != nil {
		return nil
	}
	for i, c := range asContainers(first(s.root, "spec.containers")) {
		if !slices.Contains(c.Args, "discovery") && !(c.Name == "discovery" && strings.Contains(c.Image, "pilot")) {
			continue
		}
		at := fmt.Sprintf("spec.containers[%d]", i)
		x := &istiod{subject: s, arguments: readArguments(c.Args, at)}
		for j, v := range c.Env {
			x.environment = append(x.environment, setting{v.Name, v.Value, fmt.Sprintf("%s.env[%d]", at, j)})
		}
		return x
	}
	return nil
}

// asContainers decodes containers, as far as possible.
func asContainers(value any) []corev1.Container {
	var list []corev1.Container
	_ = json.Unmarshal([]byte(encode(value)), &list) // what cannot be read has its zero value
	return list
}

// readArguments returns the flags ("--name") in the arguments of a container at the path at. The
// value of a flag follows "=", or is the next argument if that does not begin with "-"; otherwise
// it is "". Arguments that are no flags are skipped.
func readArguments(args []string, at string) []setting {
	var list []setting
	for i, arg := range args {
		name, found := strings.CutPrefix(arg, "--")
		if !found || name == "" {
			continue
		}
		name, value, paired := strings.Cut(name, "=")
		if !paired && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
			value = args[i+1]
		}
		list = append(list, setting{name, value, fmt.Sprintf("%s.args[%d]", at, i)})
	}
	return list
}

// matchIstiod returns the variables or flags of istiod that a selector selects. A selector of a
// flag (Argument) selects no variables.
func (r *run) matchIstiod(s Selector, x *istiod) []match {
	settings, name := x.environment, s.Environment
	if s.Argument != "" {
		settings, name = x.arguments, s.Argument
	}
	var list []match
	for _, v := range settings {
		if v.name == name && r.holds(s.when, x.subject, field{path: v.path, value: v.value}) {
			list = append(list, match{subject: x.subject, path: v.path, name: v.name})
		}
	}
	return list
}

// namesIn returns the names of variables that a Markdown text has in backquotes.
func namesIn(text string) map[string]bool {
	names := map[string]bool{}
	for _, m := range variableName.FindAllStringSubmatch(text, -1) {
		names[m[1]] = true
	}
	return names
}

// variableName matches the name of a variable in the document.
var variableName = regexp.MustCompile("`([A-Z][A-Z0-9_]+)`")

// readVariables returns the names of the variables that docs/ENVIRONMENT.md lists as read by the
// control plane.
func readVariables() (map[string]bool, error) {
	text, err := docs.Environment()
	if err != nil {
		return nil, err
	}
	text, _, _ = strings.Cut(text, unread.Title)
	return namesIn(text), nil
}

// isHarmless reports whether a variable has no effect in istiod either, or the same effect in every
// Go program.
func isHarmless(name string) bool {
	return slices.Contains([]string{
		"SERVICE_ACCOUNT", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "GOGC", "GRPC_GO_LOG_SEVERITY_LEVEL",
		"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "TZ",
	}, name)
}

// addSettingsOfIstiod adds a finding for each variable and flag of istiod that this control plane
// does not read or accept. Harmless variables (isHarmless), and variables with a finding of a
// difference, are skipped. It returns an error only if the list of known variables cannot be read.
func (r *run) addSettingsOfIstiod() error {
	read, err := readVariables()
	if err != nil {
		return err
	}
	for _, x := range r.istiods {
		for _, v := range x.environment {
			if !read[v.name] && !isHarmless(v.name) && !r.hasFinding(x, v) {
				_, behaviour, _ := unread.Find(v.name)
				r.addVariable(x, v, behaviour)
			}
		}
		for _, v := range x.arguments {
			if !slices.Contains(Arguments(), v.name) {
				r.addArgument(x, v)
			}
		}
	}
	return nil
}

// hasFinding reports whether r has a finding for the variable v of a container of istiod.
func (r *run) hasFinding(x *istiod, v setting) bool {
	return slices.ContainsFunc(r.findings,
		func(f Finding) bool { return f.Field == v.name && f.key == x.subject.document.Key })
}

// addVariable adds the finding of a variable that is not read. behaviour is the fixed behaviour, or
// empty for an unknown variable.
func (r *run) addVariable(x *istiod, v setting, behaviour string) {
	f := newFinding(x.subject, v.path)
	f.Level, f.ID, f.Field, f.Subject = Different, "variable", v.name, "environment variable of istiod"
	f.Here = "is not read: " + behaviour
	f.Do = "compare the value with the fixed behaviour, and remove the variable"
	if behaviour == "" {
		f.Level, f.Here = NotServed, "is unknown, and not read"
		f.Do = "look for a successor in docs/ENVIRONMENT.md"
	}
	r.findings = append(r.findings, f)
}

// addArgument adds the finding of a flag that pilot-discovery does not have, or that is retired. A
// retired flag is Different, an unknown one NotServed.
func (r *run) addArgument(x *istiod, v setting) {
	f := newFinding(x.subject, v.path)
	f.Level, f.ID, f.Field, f.Subject = NotServed, "argument", "--"+v.name, "flag of istiod"
	f.Here, f.Do = "is unknown, and ignored with a warning", "remove the flag"
	for _, old := range retired.DiscoveryFlags() {
		if old.Name == v.name {
			f.Level, f.Here, f.Do = Different, "is accepted without effect", old.Successor
			if old.Alias != "" {
				f.Here = "sets --" + old.Alias
			}
		}
	}
	r.findings = append(r.findings, f)
}
