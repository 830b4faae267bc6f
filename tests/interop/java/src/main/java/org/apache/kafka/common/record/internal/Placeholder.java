package org.apache.kafka.common.record.internal;

/** Makes this package exist where Kafka is older than 4.2 and keeps its record classes one level up. */
final class Placeholder {
}
