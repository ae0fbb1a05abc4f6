package scorecard

import "slices"

// Checks returns the table, in the order of the numbers.
func Checks() []Check {
	return slices.Concat(
		capacityChecks(),
		losslessChecks(),
		changeChecks(),
		protocolChecks(),
		faultChecks(),
		identityChecks(),
		securityChecks(),
		wholeChecks(),
	)
}

const (
	loss       = "test/resilience/zeroloss"
	resilience = "test/resilience/controlplane"
	agent      = "cmd/pilot-agent"
)

func capacityChecks() []Check {
	return []Check{
		{
			Number:      1,
			Title:       "Steady load",
			Requirement: "5,000 real streams per replica, 1,000 services, 100 changes a minute for 24 h: push p99 under 1 s, memory drift under 2 %, no error",
			Tests:       testsIn(resilience, "TestSteadyLoad"),
			Limits: "proxies are simulated, but for one real Envoy: one machine cannot hold 5,000. A short run cannot show a slow leak: " +
				"the drift is a regression over its second half",
		},
		{
			Number:      2,
			Title:       "Streams on two cores and 4 GB",
			Requirement: "at least twice as many streams as istiod at equal push p99",
			Tests:       withPeer(testsIn(resilience, "TestStreamCapacity")),
			Limits:      "simulated proxies share the two cores with the control plane: both control planes reach less than they would alone",
		},
		{
			Number: 3, Title: "Cold herd",
			Requirement: "10,000 clients connect at once: all are configured within 20 s, nothing runs out of memory",
			Tests:       withPeer(testsIn(resilience, "TestColdHerd")),
			Limits:      "simulated proxies, on the same two cores",
		},
	}
}

func losslessChecks() []Check {
	return []Check{
		{
			Number:      4,
			Title:       "kill -9 of any replica",
			Requirement: "a replica is killed every 30 s for 2 h at 50,000 requests a second: no request lost, no proxy stale after 30 s",
			Tests:       testsIn(loss, "TestReplicasAreKilled"),
			Limits: "some 1,300 requests a second through two sidecars: real Envoys and clients share two cores. A proxy has one address of " +
				"the control plane and is served again when the replica there is back",
		},
		{
			Number:      5,
			Title:       "All replicas down",
			Requirement: "60 min without any replica: no request lost in an unchanged mesh, certificates in the first half of their life survive",
			Tests: append(
				testsIn(loss, "TestNoReplicaRuns"),
				testsIn("internal/agent/identity", "TestOutage")...),
			Limits: "certificates survive 11 h on a simulated clock",
		},
		{
			Number:      6,
			Title:       "Roll to the adjacent version and back",
			Requirement: "N-1 to N to N-1: no request lost, no listener drained",
			Tests:       testsIn(loss, "TestVersionRoll"),
			Limits: "there is no release yet: N-1 is the commit that TestVersionRoll names, built from this repository. Objects come from files, " +
				"agents and Envoys stay",
		},
		{
			Number:      7,
			Title:       "Byte stability of no-op pushes and restarts",
			Requirement: "0 modified counters on 1,000 proxies",
			Tests:       append(withPeer(testsIn(resilience, "TestNoOpPushes")), testsIn(loss, "TestRestartChangesNothing")...),
			Limits: "three real sidecars; the other proxies are simulated and count what they are sent. istiod 1.31 has no figures: it ends " +
				"with a panic (config.equals) when an object in a file gets a status",
		},
		{
			Number: 8, Title: "Add a subset and its route in one apply",
			Requirement: "1,000 times with retries off: no failed request",
			Tests:       testsIn(loss, "TestNoRequestIsLost"),
		},
		{
			Number: 9, Title: "Remove a subset and its route in one apply",
			Requirement: "1,000 times with retries off: no failed request",
			Tests:       testsIn(loss, "TestNoRequestIsLost"),
		},
	}
}

func changeChecks() []Check {
	return []Check{
		{
			Number: 10, Title: "Change the mode of mutual TLS",
			Requirement: "PERMISSIVE, STRICT, DISABLE in every order, 200 times: no failed request",
			Tests:       testsIn(loss, "TestNoRequestIsLost", "TestUnusedConnectionsAtModeChange"),
			Limits:      "six changes of mode in each round",
		},
		{
			Number:      11,
			Title:       "Endpoint churn",
			Requirement: "1,000 changes a second for 1 h: no failed request with the drain barrier, EDS p99 under 2 s",
			Tests:       withPeer(testsIn(resilience, "TestEndpointChurn")),
			Limits:      "EDS latency alone, at simulated proxies; that requests survive changes of endpoints is part of checks 8 and 12",
		},
		{
			Number:      12,
			Title:       "Rolling restart",
			Requirement: "maxSurge 100 %, 100 times, six protocols: no failed request",
			Tests: append(
				testsIn("test/integration/k8s", "TestStory"),
				testsIn("test/integration/vm", "TestWithoutKubernetes")...),
			Limits: "one rolling restart on Kubernetes with HTTP, and reboots of virtual machines",
		},
		{
			Number: 13, Title: "SIGTERM of an agent under load",
			Requirement: "1,000 times: no failed request, exit within the grace period",
			Tests:       testsIn(agent, "TestSIGTERMLosesNoRequest"),
		},
		{
			Number: 14, Title: "Hot restart under load",
			Requirement: "100 times: no failed new request, streams are kept to the parent's deadline",
			Tests:       testsIn(agent, "TestHotRestart"),
			Limits:      "requests alone, no long streams",
		},
	}
}

func protocolChecks() []Check {
	return []Check{
		{
			Number: 15, Title: "Warming watchdog",
			Requirement: "in 100,000 updates nothing warms for more than 5 s",
			Tests:       testsIn("internal/xds/server", "TestEnvoyLosesNoRequest"),
			Limits:      "every update is awaited, so that one that warms for long fails the test",
		},
		{
			Number: 16, Title: "Order of pushes is gated by acknowledgements",
			Requirement: "SotW and delta: the order holds in every trace",
			Tests: slices.Concat(testsIn("internal/xds/stream", "TestHazards", "TestScripts", "TestModel"),
				withPeer(testsIn(resilience, "TestNoUpdateIsLost"))),
			Limits: "the order is judged at each step of the model and in recorded views: no route before its cluster",
		},
		{
			Number: 17, Title: "SotW model", Requirement: "10,000,000 random steps without divergence",
			Tests: testsIn("internal/xds/stream", "TestModel"),
		},
		{
			Number:      18,
			Title:       "Delta model with wildcards, stale nonces, reconnects",
			Requirement: "10,000,000 random steps without divergence",
			Tests:       testsIn("internal/xds/stream", "TestModel"),
		},
		{
			Number:      19,
			Title:       "Differential test against istiod",
			Requirement: "on recorded corpora the semantic difference is empty or listed",
			Tests:       testsIn("test/conformance/differential", "TestSameAsIstiod"),
			Limits: "outbound configuration of two sidecars and a gateway for a corpus written for the test; inbound listeners, policies and " +
				"telemetry are not compared. Other differences that are on purpose are in adr/0007",
		},
		{
			Number:      20,
			Title:       "Poison resources",
			Requirement: "200 known causes of NACKs, one at a time and all at once: only the object is affected, healed within 5 s of the fix",
			Tests:       testsIn("test/integration/e2e", "TestPoison"),
		},
		{
			Number: 21, Title: "Blocked and slow clients",
			Requirement: "500 blocked and 500 slow clients: the others' p99 grows by at most 10 %",
			Tests:       withPeer(testsIn(resilience, "TestSlowClients")),
			Limits:      "simulated proxies, on the same two cores: their own work is part of the latency",
		},
		{
			Number: 22, Title: "Half-open connections", Requirement: "all detected within 40 s",
			Tests:  testsIn(resilience, "TestHalfOpenStreams"),
			Limits: "the control plane's side; agents have a deadline of their own (internal/agent/relay)",
		},
	}
}

func faultChecks() []Check {
	return []Check{
		{
			Number:      23,
			Title:       "Chaos at the API server",
			Requirement: "drops, 410, lies and an outage of 30 min, for 1 h: the final state is the API server's, no mass removal",
			Tests: testsIn("test/resilience/apiserver", "TestFaults", "TestAPIServerStops",
				"TestStartWithoutAPIServer", "TestRevokedReadPermissions", "TestDefinitionIsRemoved", "TestMeshConfigMap"),
			Limits: "each fault lasts seconds; watches that lie are not played",
		},
		{
			Number:      24,
			Title:       "Chaos at Consul",
			Requirement: "restart, index reset, 500, empty answers for 1 h: as check 23",
			Tests:       testsIn("test/integration/consul", "TestChaos"),
			Limits: "events of the registry, no proxies. An empty answer for one service alone looks as a deregistration does, and is not " +
				"played; nor are partitions between servers, ACLs and TLS",
		},
		{
			Number:      25,
			Title:       "Chaos in files",
			Requirement: "10,000 partial writes, renames and flips of symbolic links: the last good state is always served, no restart",
			Tests: testsIn("internal/ingest/source/file", "TestRandomNoise",
				"TestAnySequenceOfWritesEndsAsAFreshRead", "TestBrokenDocumentKeepsItsLastGoodVersion",
				"TestFileWrittenPieceByPiece", "TestEditorsReplaceFiles", "TestConfigMap"),
			Limits: "the last good state is checked for broken documents, the end state for random sequences",
		},
		{
			Number:      26,
			Title:       "Full disk and read-only file system",
			Requirement: "agent and control plane: no crash, no truncated file",
			Tests: testsIn("test/resilience/diskfull", "TestWriters", "TestControlPlane", "TestFirstStartOnAFullDisk",
				"TestModulesOnAFullDisk", "TestAgent", "TestAgentStartsOnAFullDisk"),
		},
		{
			Number: 27, Title: "Outage of the authority, expired tokens, clock skew of 2 min",
			Requirement: "no certificate lapses in 7 simulated days",
			Tests: append(testsIn("internal/agent/identity", "TestOutage"),
				testsIn("test/resilience/clockskew", "TestNoCertificateLapses", "TestLargeSkews")...),
			Limits: "on simulated clocks; certificates are verified by Go, not by Envoy",
		},
		{
			Number:      28,
			Title:       "Rotation of roots",
			Requirement: "20 full cycles at 1,000 requests a second: no failed handshake",
			Tests:       testsIn("test/integration/identity", "TestIdentity"),
		},
		{
			Number:      29,
			Title:       "Leader cycles",
			Requirement: "1,000 cycles: as many goroutines and files as before, never two status writers",
			Tests:       testsIn("internal/kube/leader", "TestManyTerms", "TestManyTermsOnAnAPIServer"),
			Limits:      "TestManyTerms has a Lease in memory",
		},
		{
			Number:      30,
			Title:       "Connect storms",
			Requirement: "10,000 clients connect and disconnect 100 times: heap, goroutines and files are back within 1 %",
			Tests: append(testsIn(resilience, "TestConnectStorms"),
				testsIn("internal/xds/server", "TestConnectDisconnectLeavesNothing")...),
			Limits: "the first on the process with simulated proxies, the second in the test's process with streams that break off at every stage",
		},
	}
}

func identityChecks() []Check {
	return []Check{
		{
			Number:      31,
			Title:       "Race detector and goroutine leaks",
			Requirement: "every test with the race detector, goleak in every package: no report",
			Tests: append(
				testsIn("test/resilience/gotest", "TestRaceDetector"),
				testsIn("test/architecture", "TestGoroutineLeaks")...),
			Limits: "goleak in the packages whose code starts goroutines; short and hour run the everyday tests",
		},
		{
			Number:      32,
			Title:       "Fuzzing",
			Requirement: "at least 60 targets, 10^9 executions each for a release, seeded by every CVE: no crash, none over 1 s or 256 MB",
			Tests:       testsIn("test/resilience/gotest", "TestFuzzTargets"),
			Limits:      "an input that takes long or much memory fails only where the target itself looks at that",
		},
		{
			Number:      33,
			Title:       "Hostile input before authentication",
			Requirement: "every port, 24 h, with floods of HTTP/2 frames, slow clients and 100,000 idle handshakes: no restart, memory at most 200 MB more",
			Tests:       testsIn("test/resilience/hostileclients", "TestHostileClients"),
			Limits:      "thousands of connections, not 100,000",
		},
		{Number: 34, Title: "Regression tests of CVEs", Requirement: "every row of the table of bulletins is automated",
			Tests:  testsIn("test/architecture", "TestSecurityDocument"),
			Limits: "shows that the tests which SECURITY.md names exist; make test runs them"},
		{
			Number:      35,
			Title:       "Differential test of authorization",
			Requirement: "10^6 random pairs of policy and request, Envoy's verdict against an independent evaluator: no mismatch",
			Tests:       testsIn("test/conformance/authorization", "TestRandomPolicies"),
			Limits:      "no CUSTOM policies, no gateways",
		},
	}
}

func securityChecks() []Check {
	return []Check{
		{
			Number:      36,
			Title:       "Tenants",
			Requirement: "10^5 random configurations of two namespaces: in strict mode one changes no byte of the other, never a secret",
			Tests: slices.Concat(
				testsIn("test/conformance/tenants", "TestNothingCrossesInStrictMode", "TestOnlyExportedObjectsHaveEffect"),
				testsIn("internal/translate", "TestNamespacesKeepToThemselves"),
				testsIn("internal/discovery", "TestSecretsOfOtherNamespaces"),
			),
			Limits: "Kubernetes objects are fixed; only Istio's are random",
		},
		{
			Number:      37,
			Title:       "Hostile signing requests and tokens",
			Requirement: "10^5: no wrong SAN, no CA:TRUE, no panic",
			Tests: append(
				testsIn("internal/identity/ca", "TestCertificatesContainNothingOfTheRequest", "TestHostileRequests"),
				testsIn("internal/discovery", "TestGeneratedSigningRequests", "TestGeneratedTokens",
					"TestHostileSigningRequests", "TestHostileTokens")...),
			Limits: "tokens of the control plane's own keys, not of an API server",
		},
		{
			Number:      38,
			Title:       "Requests forged by URLs",
			Requirement: "JWKS, Wasm, OIDC discovery, redirects, DNS rebinding: no forbidden connection",
			Tests: append(
				testsIn("test/resilience/rebinding", "TestNamesThatChangeReachNothing",
					"TestControlPlaneReachesNothing"),
				testsIn("internal/base/fetch", "TestForbiddenAddresses", "TestThisMachineIsNotReached",
					"TestRedirects", "TestBounds")...),
		},
		{
			Number:      39,
			Title:       "Debug and config endpoints by identity",
			Requirement: "as the golden table says; a new path without a rule fails the build",
			Tests: append(
				testsIn("internal/diagnostics/debug", "TestReadersOfPages"),
				testsIn("internal/discovery", "TestTokensOpenPages")...),
		},
		{
			Number:      40,
			Title:       "Matrix of iptables",
			Requirement: "no application packet uncaptured, a second run changes nothing, clean-up is byte-equal to before",
			Tests: testsIn("internal/capture/iptables", "TestTruthTable", "TestTProxyTable", "TestDNSTable",
				"TestSecondRunChangesNothing", "TestCleanUpLeavesNothing", "TestTProxyIsRemoved",
				"TestFailureAppliesNothing", "TestReconcile"),
		},
		{
			Number:      41,
			Title:       "Webhooks",
			Requirement: "10^6 pods and objects: no extra field, p99 under 100 ms, running pods are safe when it fails closed",
			Tests: append(
				testsIn(resilience, "TestWebhookLatency"),
				testsIn("internal/kube/webhook", "TestHostileBodies")...),
			Limits: "running pods are not touched by webhooks, which no test shows",
		},
		{
			Number:      42,
			Title:       "Least permissions",
			Requirement: "each rule of RBAC is needed, and no call is forbidden",
			Tests:       testsIn("test/integration/chart", "TestPermissions", "TestEachDroppedPermissionIsNoticed"),
			Limits:      "watches of the ClusterRole are dropped one by one; the rest by the API server's audit log",
		},
	}
}

func wholeChecks() []Check {
	return []Check{
		{
			Number:      43,
			Title:       "No update is lost",
			Requirement: "operation log against the log of every proxy over all chaos runs: no operation unseen past its bound, no reordering, no mixed snapshot",
			Tests:       withPeer(testsIn(resilience, "TestNoUpdateIsLost")),
			Limits:      "chaos is kill -9, SIGSTOP and SIGTERM of replicas, broken writes of files and rules that are missing for a while; views are of simulated proxies that speak delta and of one real Envoy, whose configuration is looked at ten times a second. istiod runs without that Envoy and without broken files",
		},
	}
}
