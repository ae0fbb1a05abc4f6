package chart

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

// request is an entry of an audit log (audit.k8s.io/v1 Event).
type request struct {
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Verb   string `json:"verb"`
	Object struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
}

func (r request) allowed() bool { return r.Annotations["authorization.k8s.io/decision"] == "allow" }

func (r request) resource() string {
	if r.Object.Subresource != "" {
		return r.Object.Resource + "/" + r.Object.Subresource
	}
	return r.Object.Resource
}

func (r request) String() string {
	return r.Verb + " " + r.Object.Group + "/" + r.resource() + " " + r.Object.Namespace + "/" + r.Object.Name
}

// auditing returns the API server's flags for an audit log, and the log's path.
func auditing(t *testing.T) (flags []string, log string) {
	t.Helper()
	dir := t.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	log = filepath.Join(dir, "audit.log")
	return []string{"--audit-policy-file=" + policy, "--audit-log-path=" + log, "--audit-log-mode=blocking"}, log
}

// requestsOf reads the requests of a user so far.
func requestsOf(t *testing.T, log, user string) []request {
	t.Helper()
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []request
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.User.Username == user {
			list = append(list, r)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

// grant is one thing that a role allows.
type grant struct {
	// namespace is that of a Role; "" for a ClusterRole.
	namespace, group, resource, verb, name string
}

func (g grant) String() string {
	return g.verb + " " + g.group + "/" + g.resource + " " + g.namespace + "/" + g.name
}

// grantsOf takes rules apart.
func grantsOf(namespace string, rules []rbacv1.PolicyRule) []grant {
	var list []grant
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					for _, name := range names {
						list = append(list, grant{namespace, group, resource, verb, name})
					}
				}
			}
		}
	}
	return list
}

// covers reports whether the grant allows the request.
func (g grant) covers(r request) bool {
	resource := g.resource == r.resource() || g.resource == "*" && r.Object.Subresource == "" || g.resource == "*/status" && r.Object.Subresource == "status"
	return (g.namespace == "" || g.namespace == r.Object.Namespace) && g.group == r.Object.Group && resource && g.verb == r.Verb &&
		(g.name == "" || g.name == r.Object.Name)
}

// unused returns the grants that no request needs.
func unused(grants []grant, requests []request) []grant {
	return slices.DeleteFunc(slices.Clone(grants), func(g grant) bool {
		return slices.ContainsFunc(requests, func(r request) bool {
			if !g.covers(r) {
				return false
			}
			return !slices.ContainsFunc(grants, func(o grant) bool { return o != g && o.covers(r) })
		})
	})
}
