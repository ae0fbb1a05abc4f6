// Package story performs the steps of a user's first day on a cluster, and checks the results:
// install, label a namespace, deploy Bookinfo, call it through the gateway, break a rule, shift
// traffic, scale, roll, restart; then the same with the Gateway API, as samples/gateway-api describes.
// [Stage.PlayUpgrade] and [Stage.PlayMove] run the commands of docs/UPGRADE.md instead.
// All of it is real: a kube-apiserver, webhooks, iptables, Envoy.
//
// In: a cluster with a node. Out: expectations, met or not, reported to an [Audience]: a test, or
// a terminal.
//
// Start with [Stage.Play] in scenes.go; stage.go is where the scenes play.
package story
