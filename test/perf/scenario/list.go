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
	// Replicas is the number of control planes; 0 means one.
	Replicas int
}

// Sizes are the sizes that there are.
func Sizes() []string { return []string{"small", "medium", "large"} }

// Groups are the groups of a size.
func Groups(size string) ([]Group, error) {
	var list []Group
	switch size {
	case "small":
		list = smallGroups()
	case "medium":
		list = mediumGroups()
	case "large":
		list = largeGroups()
	default:
		return nil, fmt.Errorf("unknown size %q: want one of %v", size, Sizes())
	}
	for i := range list {
		list[i].Name = size + "/" + list[i].Name
		list[i].Mesh.Seed = 1
	}
	return list, nil
}

func smallGroups() []Group {
	return []Group{
		{
			Name: "main", Proxies: 100, Scenarios: everydayScenarios(10),
			Mesh: workload.Params{Services: 100, Endpoints: 5, Routes: 4, Namespaces: 5},
		},
		{
			Name: "big", Proxies: 100, Scenarios: bigService(),
			Mesh: workload.Params{Services: 10, Endpoints: 1000, Routes: 1, Namespaces: 1, Scope: workload.Everything},
		},
		{
			Name: "scoped", Proxies: 200, Scenarios: scopedScenarios(),
			Mesh: workload.Params{Services: 200, Endpoints: 2, Routes: 2, Namespaces: 20, Scope: workload.Namespace},
		},
		{
			Name: "memory", Proxies: 500, Scenarios: memoryScenarios(),
			Mesh: workload.Params{Services: 100, Endpoints: 5, Routes: 4, Namespaces: 5},
		},
		{
			Name: "collapse", Proxies: 100, Scenarios: collapseScenarios(),
			Mesh: workload.Params{Services: 100, Endpoints: 2, Routes: 2, Namespaces: 5, Scope: workload.Workload},
		},
		{
			Name: "leak", Proxies: 200, Scenarios: leakScenarios(10),
			Mesh: workload.Params{Services: 20, Endpoints: 1, Routes: 1, Namespaces: 2},
		},
		{
			Name: "console", Proxies: 100, Scenarios: consoleScenarios(),
			Mesh: workload.Params{Services: 100, Endpoints: 2, Routes: 2, Namespaces: 5},
		},
		{
			Name: "replicas", Proxies: 300, Replicas: 3, Scenarios: replicaScenarios(),
			Mesh: workload.Params{Services: 100, Endpoints: 5, Routes: 4, Namespaces: 5},
		},
	}
}

func mediumGroups() []Group {
	return []Group{
		{
			Name: "main", Proxies: 500, Scenarios: everydayScenarios(15),
			Mesh: workload.Params{Services: 1000, Endpoints: 10, Routes: 4, Namespaces: 20},
		},
		{
			Name: "big", Proxies: 300, Scenarios: bigService(),
			Mesh: workload.Params{Services: 120, Endpoints: 200, Routes: 1, Namespaces: 5, Scope: workload.Everything},
		},
		{
			Name: "scoped", Proxies: 1000, Scenarios: scopedScenarios(),
			Mesh: workload.Params{Services: 2000, Endpoints: 2, Routes: 2, Namespaces: 100, Scope: workload.Namespace},
		},
		{
			Name: "replicas", Proxies: 3000, Replicas: 3, Scenarios: replicaScenarios(),
			Mesh: workload.Params{Services: 1000, Endpoints: 10, Routes: 4, Namespaces: 20},
		},
	}
}

func largeGroups() []Group {
	return []Group{
		{
			Name: "main", Proxies: 300, Scenarios: everydayScenarios(30),
			Mesh: workload.Params{Services: 5000, Endpoints: 10, Routes: 4, Namespaces: 50},
		},
		{
			Name: "memory", Proxies: 2000, Scenarios: memoryScenarios(),
			Mesh: workload.Params{Services: 1000, Endpoints: 2, Routes: 4, Namespaces: 20},
		},
		{
			Name: "collapse", Proxies: 500, Scenarios: collapseScenarios(),
			Mesh: workload.Params{Services: 500, Endpoints: 2, Routes: 2, Namespaces: 20, Scope: workload.Workload},
		},
		{
			Name: "leak", Proxies: 1000, Scenarios: leakScenarios(50),
			Mesh: workload.Params{Services: 20, Endpoints: 1, Routes: 1, Namespaces: 2},
		},
		{
			Name: "console", Proxies: 10_000, Scenarios: consoleScenarios(),
			Mesh: workload.Params{Services: 20, Endpoints: 2, Routes: 2, Namespaces: 2},
		},
	}
}

// everydayScenarios is the list of common scenarios, with a rolling update of that many seconds.
func everydayScenarios(seconds int) []Scenario {
	list := append(
		changeScenarios(),
		Scenario{"rolling", 5, rollingUpdate(rollingRate, seconds)},
		Scenario{"slow readers", 13, slowReaders},
	)
	return append(
		list,
		Scenario{"capacity", 14, measureCapacity},
		Scenario{"reconnect", 2, reconnectAll},
		Scenario{"restart", 2, restartProcess},
		Scenario{
			"endpoint again",
			3,
			singleChanges(workload.EndpointEdit),
		}, // the state after a restart equals the state before
		Scenario{"verify", 0, verifyNewcomers},
	)
}

// changeScenarios is a start and single changes.
func changeScenarios() []Scenario {
	return []Scenario{
		{"connect", 1, connectAll},
		{"idle", 11, measureIdle},
		{"endpoint", 3, singleChanges(workload.EndpointEdit)},
		{"route", 6, singleChanges(workload.RouteEdit)},
		{"destinationrule", 7, singleChanges(workload.RuleEdit)},
		{"newservice", 8, singleChanges(workload.AddService)},
		{"goneservice", 8, singleChanges(workload.RemoveService)},
		{"rewrite", 9, quietEdits(workload.Rewrite)},
		{"metadata", 9, quietEdits(workload.MetadataEdit)},
		{"status", 9, quietEdits(workload.StatusEdit)},
	}
}

func bigService() []Scenario {
	return []Scenario{
		{"connect", 1, connectAll},
		{"big endpoint", 4, singleChanges(workload.EndpointEdit)},
		{"verify", 0, verifyNewcomers},
	}
}

// scopedScenarios changes things in one namespace of many, which only its proxies see.
func scopedScenarios() []Scenario {
	return []Scenario{
		{"connect", 1, connectAll},
		{"scoped endpoint", 10, singleIn(workload.EndpointEdit, 3)},
		{"scoped route", 10, singleIn(workload.RouteEdit, 3)},
		{"scoped rule", 10, singleIn(workload.RuleEdit, 3)},
		{"scoped newservice", 10, singleIn(workload.AddService, 3)},
		{"scoped mode", 10, modesIn(3)},
		{"scoped policy", 10, policiesIn(3)},
		{"verify", 0, verifyNewcomers},
	}
}

func memoryScenarios() []Scenario {
	return []Scenario{{"idle memory", 11, measureSlope}, {"idle", 11, measureIdle}}
}

func collapseScenarios() []Scenario {
	return []Scenario{
		{"classes", 15, measureSlope},
		{"endpoint", 15, singleChanges(workload.EndpointEdit)},
		{"route", 15, singleChanges(workload.RouteEdit)},
	}
}

func consoleScenarios() []Scenario {
	return []Scenario{{"connect", 1, connectAll}, {"consoles", 16, openConsoles}}
}

func leakScenarios(rounds int) []Scenario { return []Scenario{{"come and go", 0, comeAndGo(rounds)}} }
