package authorization

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// anyName is texts with all that means something in a regular expression.
var anyName = rapid.StringOfN(
	rapid.SampledFrom([]rune(`ab.[]+(){}|^$\-x`)),
	1,
	6,
	-1,
) //nolint:gochecknoglobals // a generator

// TestNamesMatchThemselvesAlone: users' values match literally wherever they are part of a regular
// expression (CVE-2026-39350).
func TestNamesMatchThemselvesAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, other, namespace := anyName.Draw(t, "name"), anyName.Draw(t, "other"), anyName.Draw(t, "namespace")
		s := scope{namespace: namespace, domains: []string{"d"}}
		identity := func(ns, account string) string { return "spiffe://d/ns/" + ns + "/sa/" + account }
		for _, c := range []struct {
			what string
			is   *rbacv3.Principal
			text string
			want bool
		}{
			{"an account", serviceAccountIs(s, name), identity(namespace, name), true},
			{"another account", serviceAccountIs(s, name), identity(namespace, other), name == other},
			{"an account elsewhere", serviceAccountIs(s, name), identity(other, name), namespace == other},
			{"a namespace", namespaceIs(s, name), identity(name, other), true},
			{"another namespace", namespaceIs(s, name), identity(other, name), name == other},
			{"a namespace's begin", namespaceIs(s, name+"*"), identity(other, name), strings.HasPrefix(other, name)},
			{"a namespace's end", namespaceIs(s, "*"+name), identity(other, name), strings.HasSuffix(other, name)},
			{"a namespace's middle", namespaceIs(s, "*"+name+"*"), identity(other, name), strings.Contains(other, name)},
			{"a namespace's ends", namespaceIs(s, name+"*"+other), identity(name+other, name), true},
			{
				"a namespace's other end", namespaceIs(s, name+"*"+other), identity(name+namespace, name),
				strings.HasSuffix(namespace, other),
			},
			{
				"a principal's end", principalIs(s, "*/sa/"+name), identity(namespace, other),
				strings.HasSuffix("/sa/"+other, "/sa/"+name),
			},
			{"a principal", principalIs(s, "d/ns/"+namespace+"/sa/"+name), identity(namespace, other), name == other},
			{"a trust domain", trustDomainIs(s, name), "spiffe://" + other + "/ns/a/sa/b", name == other},
		} {
			if got := matches(t, c.is, c.text); got != c.want {
				t.Fatalf("%s of %q matches %s: %v, want %v", c.what, name, c.text, got, c.want)
			}
		}
	})
}

// TestFurtherSegments: identities of other authorities have segments around the namespace and the
// account.
func TestFurtherSegments(t *testing.T) {
	deny := scope{namespace: "foo", domains: []string{"td"}}
	allow := deny
	allow.admits = true
	for _, c := range []struct {
		namespace, account string
		identity           string
		refused, admitted  bool // whether namespaceIs matches
		isAccount          bool
	}{
		{"foo", "bar", "td/ns/foo/sa/bar", true, true, true},
		{"foo", "bar", "td/region/eu/ns/foo/sa/bar", true, true, true},
		{"foo", "bar", "td/ns/foo/pod/x/sa/bar", true, true, true},
		{"foo", "bar", "td/ns/foo/sa/bar/v/1", true, true, true},
		{"f*o", "bar", "td/region/eu/ns/foo/sa/barn", true, true, false},
		{"foo", "bar", "td/ns/foo/pod/bar", true, true, false},
		{"foo", "bar", "td/region/eu/ns/foo/pod/bar", true, false, false},
		{"foo", "bar", "td/ns/food/sa/bar", false, false, false},
		{"foo", "bar", "td/region/foo/sa/bar", false, false, false},
		{"sa", "sa/bar", "td/ns/ns/sa/bar", true, false, false},
	} {
		is := func(p *rbacv3.Principal) bool {
			return regexp.MustCompile(`\A(?:` + p.GetAuthenticated().GetPrincipalName().GetSafeRegex().GetRegex() + `)\z`).
				MatchString("spiffe://" + c.identity)
		}
		if is(namespaceIs(deny, c.namespace)) != c.refused || is(namespaceIs(allow, c.namespace)) != c.admitted {
			t.Errorf("namespace %s of %s: want %v in DENY, %v in ALLOW", c.namespace, c.identity, c.refused, c.admitted)
		}
		if is(serviceAccountIs(deny, c.account)) != c.isAccount {
			t.Errorf("account %s of %s: want %v", c.account, c.identity, c.isAccount)
		}
	}
}

// matches reports whether one of the identities that a principal is about is a text.
func matches(t *rapid.T, p *rbacv3.Principal, text string) bool {
	if list := p.GetOrIds().GetIds(); list != nil {
		for _, one := range list {
			if matches(t, one, text) {
				return true
			}
		}
		return false
	}
	switch m := p.GetAuthenticated().GetPrincipalName().GetMatchPattern().(type) {
	case *matcherv3.StringMatcher_Exact:
		return m.Exact == text
	case *matcherv3.StringMatcher_Prefix:
		return strings.HasPrefix(text, m.Prefix)
	case *matcherv3.StringMatcher_Suffix:
		return strings.HasSuffix(text, m.Suffix)
	case *matcherv3.StringMatcher_SafeRegex:
		return regexp.MustCompile(`\A(?:` + m.SafeRegex.GetRegex() + `)\z`).MatchString(text)
	default:
		t.Fatalf("a matcher %T", m)
		return false
	}
}

// TestTemplates: a segment is whatever has no slash, and text is text.
func TestTemplates(t *testing.T) {
	for _, c := range []struct {
		template, path string
		want           bool
	}{
		{"/a/{*}/b", "/a/x/b", true},
		{"/a/{*}/b", "/a/[x]/b", true},
		{"/a/{*}/b", "/a/x*|\"%2f/b", true},
		{"/a/{*}/b", "/a//b", false},
		{"/a/{*}/b", "/a/x/y/b", false},
		{"/a/{**}", "/a/", true},
		{"/a/{**}", "/a", false},
		{"/a/{**}/c", "/a/x/y/c", true},
		{"/a/{*}.html", "/a/index.html", true},
		{"/a/{*}.html", "/a/indexXhtml", false},
		{"/a.b/{*}", "/aXb/c", false},
		{"/{*}/{*}/{**}", "/a/b/c/d", true},
	} {
		expression := regexp.MustCompile(`\A(?:` + templateExpression(c.template) + `)\z`)
		if got := expression.MatchString(c.path); got != c.want {
			t.Errorf("%s takes %s: %v, want %v", c.template, c.path, got, c.want)
		}
	}
}
