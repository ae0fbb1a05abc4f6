package scenario

import (
	"fmt"

	"github.com/meshpilot/meshpilot/test/perf/report"
	"github.com/meshpilot/meshpilot/test/perf/workload"
)

// Scenario is one thing that is done and measured.
type Scenario struct {
	Name string
	// Number is its place in docs/BENCHMARKS.md.
	Number int
	run    func(b *bench, row *report.Row) error
}

// Group is scenarios that share a process, in order.
type Group struct {
	// Name is size and kind: "small/main".
	Name      string
	Mesh      workload.Params
	Proxies   int
	Scenarios []Scenario
}

// Sizes are the sizes that there are.
func Sizes() []string { return []string{"small", "medium", "large"} }

// Groups are the groups of a size.
func Groups(size string) ([]Group, error) {
	var list []Group
	switch size {
	case "small":
		list = []Group{
			{"main", workload.Params{Services: 100, Endpoints: 5, Routes: 4, Namespaces: 5}, 100, everyday(10)},
			{"big", workload.Params{Services: 10, Endpoints: 1000, Routes: 1, Namespaces: 1, Scope: workload.Everything}, 100, bigService()},
			{"scoped", workload.Params{Services: 200, Endpoints: 2, Routes: 2, Namespaces: 20, Scope: workload.Namespace}, 200, scoped()},
			{"memory", workload.Params{Services: 100, Endpoints: 5, Routes: 4, Namespaces: 5}, 500, memory()},
			{"collapse", workload.Params{Services: 100, Endpoints: 2, Routes: 2, Namespaces: 5, Scope: workload.Workload}, 100, collapse()},
			{"leak", workload.Params{Services: 20, Endpoints: 1, Routes: 1, Namespaces: 2}, 200, leak(10)},
		}
	case "medium":
		list = []Group{
			{"main", workload.Params{Services: 1000, Endpoints: 10, Routes: 4, Namespaces: 20}, 500, everyday(15)},
			{"big", workload.Params{Services: 120, Endpoints: 200, Routes: 1, Namespaces: 5, Scope: workload.Everything}, 300, bigService()},
			{"scoped", workload.Params{Services: 2000, Endpoints: 2, Routes: 2, Namespaces: 100, Scope: workload.Namespace}, 1000, scoped()},
		}
	case "large":
		list = []Group{
			{"main", workload.Params{Services: 5000, Endpoints: 10, Routes: 4, Namespaces: 50}, 300, everyday(30)},
			{"memory", workload.Params{Services: 1000, Endpoints: 2, Routes: 4, Namespaces: 20}, 2000, memory()},
			{"collapse", workload.Params{Services: 500, Endpoints: 2, Routes: 2, Namespaces: 20, Scope: workload.Workload}, 500, collapse()},
			{"leak", workload.Params{Services: 20, Endpoints: 1, Routes: 1, Namespaces: 2}, 1000, leak(50)},
		}
	default:
		return nil, fmt.Errorf("unknown size %q: want one of %v", size, Sizes())
	}
	for i := range list {
		list[i].Name = size + "/" + list[i].Name
		list[i].Mesh.Seed = 1
	}
	return list, nil
}

// everyday is the list of common scenarios, with a rolling update of that many seconds.
func everyday(seconds int) []Scenario {
	list := append(changes(), Scenario{"rolling", 5, rolling(rollingRate, seconds)}, Scenario{"slow readers", 13, slowReaders})
	return append(list,
		Scenario{"capacity", 14, capacity},
		Scenario{"reconnect", 2, reconnect},
		Scenario{"restart", 2, restart},
		Scenario{"endpoint again", 3, single(workload.EndpointEdit)}, // the state after a restart equals the state before
		Scenario{"verify", 0, verify},
	)
}

// changes is a start and single changes.
func changes() []Scenario {
	return []Scenario{
		{"connect", 1, connect},
		{"idle", 11, idle},
		{"endpoint", 3, single(workload.EndpointEdit)},
		{"route", 6, single(workload.RouteEdit)},
		{"destinationrule", 7, single(workload.RuleEdit)},
		{"newservice", 8, single(workload.AddService)},
		{"goneservice", 8, single(workload.RemoveService)},
		{"rewrite", 9, quietEdits(workload.Rewrite)},
		{"metadata", 9, quietEdits(workload.MetadataEdit)},
		{"status", 9, quietEdits(workload.StatusEdit)},
	}
}

func bigService() []Scenario {
	return []Scenario{{"connect", 1, connect}, {"big endpoint", 4, single(workload.EndpointEdit)}, {"verify", 0, verify}}
}

// scoped changes things in one namespace of many, which only its proxies see.
func scoped() []Scenario {
	return []Scenario{
		{"connect", 1, connect},
		{"scoped endpoint", 10, singleIn(workload.EndpointEdit, 3)},
		{"scoped route", 10, singleIn(workload.RouteEdit, 3)},
		{"scoped rule", 10, singleIn(workload.RuleEdit, 3)},
		{"scoped newservice", 10, singleIn(workload.AddService, 3)},
		{"verify", 0, verify},
	}
}

func memory() []Scenario { return []Scenario{{"idle memory", 11, slope}, {"idle", 11, idle}} }

func collapse() []Scenario {
	return []Scenario{{"classes", 15, slope}, {"endpoint", 15, single(workload.EndpointEdit)}, {"route", 15, single(workload.RouteEdit)}}
}

func leak(rounds int) []Scenario { return []Scenario{{"come and go", 0, comeAndGo(rounds)}} }
