// Package eureka runs real Eureka servers for tests.
//
// The input is [Options]. The output is a [Server], a process of the Spring Boot application in
// programs/eureka, whose Spring Cloud has Netflix's server. Maven builds it into the user's cache once. A
// server keeps its instances in memory: it restarts without them.
//
// Start with [Start].
package eureka
