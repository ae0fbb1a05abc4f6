// Package calltest reads tests of routing and access policies, and evaluates them on generated
// configuration.
//
// The inputs are a list of [Case]s, one line of YAML each, and a [Mesh] of manifests:
//
//   - {name: users see v1, from: productpage-v1, call: GET http://reviews:9080/, expect: {to: reviews-v1}}
//   - {name: strangers are refused, from: ratings-v1, call: DELETE http://reviews:9080/, expect: deny by none}
//
// The outputs are [Result]s with their differences from the expectations. A case is evaluated by
// package explain: at the proxy of the caller, and then at the proxy of each workload that may
// receive the call. No request is sent and no network is used. The conformance tests of this
// project use the same cases, and send them through Envoys besides.
//
// Start reading at [Case] in case.go, then [Judge] in judge.go and [Mesh.Evaluate] in mesh.go.
package calltest
