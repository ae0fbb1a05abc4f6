// Package consul tests the Consul registry with real Consul servers: what it reads while services and
// their health change, and what stays in use while servers are down, have lost their data, or refuse
// a token. TestChaos plays the faults of faults_test.go on three servers behind a load balancer
// (front_test.go), which can also answer itself.
package consul
