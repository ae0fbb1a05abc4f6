package stream

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/meshpilot/meshpilot/internal/model/api"
	"github.com/meshpilot/meshpilot/internal/model/resource"
	"github.com/meshpilot/meshpilot/test/support/scorecard"
)

var update = flag.Bool("update", false, "rewrite the answers in testdata/*.txt")

// TestScripts plays the dialogues in testdata. The language:
//
//	mode delta                           or sotw; the first line that is no comment. "mode delta config" serves
//	                                     configTypes instead of EnvoyTypes; "mode delta drain 3" sets Options.Drain;
//	                                     with "mode delta on-demand" clusters "od…" are fetched on demand
//	> resources CDS a=1 b=1 / c=1; EDS a=1 x=-   a Resources: resources and their versions; "/" parts ResourceGroups; "x=-" was looked
//	                                     up and does not exist (EDS, RDS), "x=?" is a placeholder. "CDS" alone: served, and empty.
//	                                     "RDS 80=1:a,b" refers to the clusters a and b, "80=1:a!b" pins b.
//	> CDS                                a first request, a wildcard by the legacy rule
//	> CDS +a -b held a=1 b=2             delta: subscribe, unsubscribe, initial_resource_versions
//	> EDS a b                            SotW: resource_names
//	> CDS ack 3 …                        with response_nonce 3; may go on with names
//	> CDS nack 3 "text" …                with error_detail
//	> CDS version 7 …                    SotW: version_info
//	> overdue 2                          two Tick events
//	> again                              everything once more
//	> block, > unblock                   the shell cannot write, and can again
//	< …                                  what comes out
//
// Clusters wait for the EDS resource of their own name, but for those whose name begins with
// "static".
func TestScripts(t *testing.T) {
	scorecard.Check(t, 16)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("the dialogue differs (-want +got):\n%s", d)
			}
		})
	}
}

// script is the state of a running dialogue.
type script struct {
	t       *testing.T
	types   *Types
	mode    Mode
	fetched func(cluster string) bool
	m       *Machine
	twin    *Machine // a second stream that has the same ResourceSnapshots and the same client (X20)
	blocked bool
	out     strings.Builder
}

// play runs a script and returns its text with the received responses.
func play(t *testing.T, text string) string {
	s := &script{t: t}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "<"):
		case strings.HasPrefix(line, "mode "):
			words := strings.Fields(line)
			if words[1] == "delta" {
				s.mode = Delta
			}
			if s.types = envoyTypes; len(words) > 2 && words[2] == "config" {
				s.types = configTypes
			}
			o := Options{Mode: s.mode, Types: s.types}
			if len(words) > 2 && words[2] == "on-demand" {
				s.fetched = func(cluster string) bool { return strings.HasPrefix(cluster, "od") }
			}
			if len(words) > 3 && words[2] == "drain" {
				o.Drain, _ = strconv.Atoi(words[3]) // 0 shows in the answers
			}
			s.m, s.twin = New(o), New(o)
			fmt.Fprintln(&s.out, line)
		case strings.HasPrefix(line, "> "):
			fmt.Fprintln(&s.out, line)
			s.command(line[2:])
		default:
			fmt.Fprintln(&s.out, line)
		}
	}
	return s.out.String()
}

func (s *script) command(line string) {
	word, rest, _ := strings.Cut(line, " ")
	before := s.out.Len()
	switch word {
	case "resources":
		w := s.parseResources(rest)
		s.step(Ready{Resources: w}, Ready{Resources: w})
	case "overdue":
		n, err := strconv.Atoi(rest)
		if err != nil {
			s.t.Fatalf("%q: %v", line, err)
		}
		for range n {
			s.step(Tick{}, Tick{})
		}
	case "block":
		s.blocked = true
		return
	case "unblock":
		s.blocked = false
		s.step(Sent{}, Sent{})
	case "again":
		s.step(ResendAll{}, ResendAll{})
	case "close":
		s.step(Close{}, Close{})
	default:
		s.step(parseRequest(s.t, s.mode, word, rest), parseRequest(s.t, s.mode, word, rest))
	}
	if s.out.Len() == before {
		fmt.Fprintln(&s.out, "< nothing")
	}
}

// step applies an event and, unless blocked, a Sent after each Send. The twin gets its own copy,
// because the Machine takes ownership of requests.
func (s *script) step(e, twins Event) {
	actions, others := s.m.Step(e), s.twin.Step(twins)
	if d := cmp.Diff(describeAll(actions), describeAll(others)); d != "" {
		s.t.Errorf("two streams of identical clients were sent different responses (-one +other):\n%s", d)
	}
	for _, a := range actions {
		fmt.Fprintln(&s.out, "< "+describe(a))
		if _, ok := a.(Send); ok && !s.blocked {
			s.step(Sent{}, Sent{})
		}
	}
}

func describeAll(list []Action) []string {
	var lines []string
	for _, a := range list {
		lines = append(lines, describe(a))
	}
	return lines
}

func describe(a Action) string {
	switch a := a.(type) {
	case Send:
		var list []string
		for _, p := range a.Parts {
			for _, r := range p.Resources() {
				list = append(list, r.Name+"="+string(r.Body))
			}
		}
		text := strings.TrimSpace(
			fmt.Sprintf("send %s %s: %s", api.ShortType(a.TypeURL), a.Nonce, strings.Join(list, " ")),
		)
		if len(a.Removed) > 0 {
			text += " removed " + strings.Join(a.Removed, " ")
		}
		return text
	case Ack:
		return fmt.Sprintf("ack %s %s", api.ShortType(a.TypeURL), a.Nonce)
	case Nack:
		var names []string
		for _, r := range a.Resources {
			names = append(names, r.Name+"="+string(r.Body))
		}
		return fmt.Sprintf("nack %s %s %v: %s", api.ShortType(a.TypeURL), a.Nonce, names, a.Message)
	case Stale:
		return fmt.Sprintf("stale %s %s", api.ShortType(a.TypeURL), a.Nonce)
	case Want:
		return fmt.Sprintf("want %s %s", api.ShortType(a.TypeURL), strings.Join(a.Names, " "))
	case Late:
		return fmt.Sprintf("late %s %s: %s", api.ShortType(a.TypeURL), strings.Join(a.Names, " "),
			strings.Join(a.Clusters, " "))
	case Unknown:
		return "unknown " + a.TypeURL
	case EndStream:
		return "shut: " + a.Reason
	default:
		return fmt.Sprintf("%#v", a)
	}
}

func typeURL(short string) string {
	for _, k := range pushOrder {
		if api.ShortType(k.URL) == short {
			return k.URL
		}
	}
	return short
}

func parseRequest(t *testing.T, mode Mode, short, rest string) Request {
	r := Request{TypeURL: typeURL(short)}
	if short == "untyped" {
		r.TypeURL = ""
	}
	if before, quoted, found := strings.Cut(rest, `"`); found {
		var after string
		r.Message, after, _ = strings.Cut(quoted, `"`)
		rest = before + after
	}
	words := strings.Fields(rest)
	for len(words) > 0 {
		w := words[0]
		words = words[1:]
		switch {
		case w == "ack" || w == "nack":
			r.Nonce, r.Rejected = words[0], w == "nack"
			r.Version = "v"
			words = words[1:]
		case w == "version":
			r.Version, words = words[0], words[1:]
		case w == "held":
			held := map[string]string{}
			for _, h := range words {
				name, version, _ := strings.Cut(h, "=")
				held[name] = resource.FromBytes(name, r.TypeURL, []byte(version)).Version
			}
			r.Held = HoldingsOf(held)
			words = nil
		case mode == SotW:
			r.Names = append(r.Names, w)
		case w[0] == '+':
			r.Subscribe = append(r.Subscribe, w[1:])
		case w[0] == '-':
			r.Unsubscribe = append(r.Unsubscribe, w[1:])
		default:
			t.Fatalf("request %q: cannot parse %q", rest, w)
		}
	}
	return r
}

// parseResources reads "CDS a=1 b=1 / c=1; EDS a=1 x=-".
func (s *script) parseResources(text string) *ResourceSnapshot {
	t, types := s.t, s.types
	groups := map[string][]*ResourceGroup{}
	for part := range strings.SplitSeq(text, ";") {
		short, rest, _ := strings.Cut(strings.TrimSpace(part), " ")
		url := typeURL(short)
		for group := range strings.SplitSeq(" "+rest+" ", " / ") {
			var list []*resource.Resource
			var asked []string
			for _, w := range strings.Fields(group) {
				name, version, ok := strings.Cut(w, "=")
				if !ok {
					t.Fatalf("resources %q: cannot parse %q", text, w)
				}
				asked = append(asked, name)
				if version != "-" {
					r := resource.FromBytes(name, url, []byte(version))
					r.Placeholder = version == "?"
					list = append(list, r)
				}
			}
			set, err := resource.NewSet(list)
			if err != nil {
				t.Fatal(err)
			}
			if types.IsWildcard(url) {
				groups[url] = append(groups[url], NewResourceGroup(set))
			} else {
				slices.Sort(asked)
				groups[url] = append(groups[url], NewNamedResourceGroup(set, asked))
			}
		}
	}
	return BuildResourceSnapshot(Contents{
		Types:           types,
		Groups:          groups,
		EndpointsOf:     ownEndpoints,
		ClustersOf:      refs,
		FetchedOnDemand: s.fetched,
		EmptyCluster: func(name string) *resource.Resource {
			return resource.FromBytes(name, api.ClusterType, []byte("empty"))
		},
		PinnedBy: pins,
	})
}

// pins returns the name that a body pins: "3:a!b".
func pins(r *resource.Resource) []string {
	if _, name, found := strings.Cut(string(r.Body), "!"); found {
		return []string{name}
	}
	return nil
}

// refs returns the names that a body refers to: "3:a,b".
func refs(r *resource.Resource) []string {
	body, _, _ := strings.Cut(string(r.Body), "!")
	_, list, _ := strings.Cut(body, ":")
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

func ownEndpoints(cluster *resource.Resource) string {
	if strings.HasPrefix(cluster.Name, "static") || string(cluster.Body) == absentCluster {
		return ""
	}
	return cluster.Name
}
