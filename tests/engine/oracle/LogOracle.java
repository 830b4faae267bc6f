// Differential oracle: drives Apache Kafka's own log engine (UnifiedLog, LogCleanerManager, Cleaner)
// from a script of JSON lines, with a virtual clock and a virtual scheduler.
// tests/engine/driver.py does the same operations on our engine, with results of the same shape.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.OffsetOutOfRangeException;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.FileRecords.TimestampAndOffset;
import org.apache.kafka.common.requests.ProduceResponse;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.common.OffsetAndEpoch;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.CleanShutdownFileHandler;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.*;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.*;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.zip.CRC32C;

public class LogOracle {

    // ---------------------------------------------------------------- virtual clock and scheduler
    static final class Clock implements Time {
        volatile long now;
        @Override public long milliseconds() { return now; }
        @Override public long hiResClockMs() { return now; }
        @Override public long nanoseconds() { return now * 1_000_000L; }
        @Override public void sleep(long ms) { now += ms; }
        @Override public void waitObject(Object o, Supplier<Boolean> c, long deadline) { throw new UnsupportedOperationException(); }
        @Override public <T> T waitForFuture(Future<T> f, long deadlineNs) { throw new UnsupportedOperationException(); }
    }

    static final class Task implements ScheduledFuture<Object> {
        final String name; final Runnable body; final long period; final long seq; long due; boolean cancelled, done;
        Task(String name, Runnable body, long due, long period, long seq) { this.name = name; this.body = body; this.due = due; this.period = period; this.seq = seq; }
        @Override public long getDelay(TimeUnit u) { return due; }
        @Override public int compareTo(Delayed o) { Task t = (Task) o; int c = Long.compare(due, t.due); return c != 0 ? c : Long.compare(seq, t.seq); }
        @Override public boolean cancel(boolean b) { cancelled = true; return true; }
        @Override public boolean isCancelled() { return cancelled; }
        @Override public boolean isDone() { return done; }
        @Override public Object get() { return null; }
        @Override public Object get(long l, TimeUnit u) { return null; }
    }

    /** Tasks wait here; those that are due run, in order of due time then of submission, at the end of every operation. */
    final class VirtualScheduler implements Scheduler {
        final PriorityQueue<Task> queue = new PriorityQueue<>(); long seq = 0; final List<String> ran = new ArrayList<>();
        @Override public void startup() { }
        @Override public void shutdown() { queue.clear(); }
        @Override public void resizeThreadPool(int n) { }
        @Override public ScheduledFuture<?> schedule(String name, Runnable body, long delayMs, long periodMs) {
            Task t = new Task(name, body, clock.now + Math.max(0, delayMs), periodMs, seq++);
            queue.add(t);
            return t;
        }
        void runDue() {
            while (!queue.isEmpty() && queue.peek().due <= clock.now) {
                Task t = queue.poll();
                if (t.cancelled) continue;
                try { t.body.run(); } catch (Throwable e) { ran.add(t.name + " failed: " + e.getClass().getSimpleName() + ": " + clean(String.valueOf(e.getMessage()))); }
                if (t.period > 0) { t.due += t.period; queue.add(t); } else t.done = true;
            }
        }
    }

    // ---------------------------------------------------------------- state
    static final ObjectMapper M = new ObjectMapper();
    Clock clock = new Clock();
    VirtualScheduler scheduler = new VirtualScheduler();
    final BrokerTopicStats stats = new BrokerTopicStats();
    LogDirFailureChannel failures = new LogDirFailureChannel(4);
    Path base;
    UnifiedLog log;
    LogCleanerManager manager;
    File root;             // parent of the partition directory
    TopicPartition tp;
    final Map<String, VerificationGuard> guards = new HashMap<>();
    Map<String, Object> configMap = new TreeMap<>();
    int leaderEpoch = 0;

    String clean(String s) {
        if (s == null) return null;
        String b = base.toAbsolutePath().toString();
        return s.replace(b + "/", "").replace(b, ".").replaceAll("lastModifiedTime=\\d+", "lastModifiedTime=*");
    }

    static LogConfig logConfig(Map<String, Object> c) {
        Map<String, Object> p = new HashMap<>(c);
        // segment.bytes below 1 MiB is refused by the public setting in 4.x; the internal setting carries the same meaning
        Object sb = p.get("segment.bytes");
        if (sb != null && Long.parseLong(sb.toString()) < 1024 * 1024) { p.remove("segment.bytes"); p.put("internal.segment.bytes", sb); }
        Map<String, String> q = new HashMap<>();
        p.forEach((k, v) -> q.put(k, v.toString()));
        return new LogConfig(q);
    }

    OffsetCheckpointFile checkpoint(String name) throws IOException { return new OffsetCheckpointFile(new File(root, name), failures); }

    /** Reading a bad checkpoint would mark the directory offline; here the value just falls back to 0 and the result says so. */
    long readCheckpoint(String name, String errorField, Map<String, Object> r) throws IOException {
        try { return new OffsetCheckpointFile(new File(root, name), new LogDirFailureChannel(4)).read().getOrDefault(tp, 0L); }
        catch (RuntimeException e) { r.put(errorField, e.getClass().getSimpleName() + (e.getCause() == null ? "" : ": " + clean(e.getCause().getMessage()))); return 0L; }
    }

    // ---------------------------------------------------------------- operations
    Map<String, Object> run(JsonNode op) throws Exception {
        Map<String, Object> r = new LinkedHashMap<>();
        String name = op.get("op").asText();
        if (!Set.of("open", "damage", "meta", "advance", "ls").contains(name) && log == null) throw new IllegalStateException("no open log");
        switch (name) {
            case "meta": break;
            case "open": open(op, r); break;
            case "close": close(op, r); break;
            case "damage": damage(op, r); break;
            case "advance": clock.now += op.get("ms").asLong(); r.put("now", clock.now); break;
            case "append": append(op, r); break;
            case "end_txn": endTxn(op, r); break;
            case "become_leader": leaderEpoch = op.get("epoch").asInt(); log.assignEpochStartOffset(leaderEpoch, log.logEndOffset()); break;
            case "roll": r.put("base", log.roll().baseOffset()); break;
            case "flush": log.flush(op.path("force").asBoolean(false)); r.put("recoveryPoint", log.recoveryPoint()); break;
            case "hw": r.put("hw_set", log.updateHighWatermark(op.get("offset").asLong())); break;
            case "retention": r.put("deleted", log.deleteOldSegments()); break;
            case "truncate": truncate(op, r); break;
            case "truncate_fully": truncateFully(op, r); break;
            case "delete_records": deleteRecords(op, r); break;
            case "checkpoint": writeCheckpoints(); break;
            case "clean": cleanOnce(op, r); break;
            case "read": read(op, r); break;
            case "offset_for_time": offsetForTime(op, r); break;
            case "epoch_end": {
                Optional<OffsetAndEpoch> e = log.endOffsetForEpoch(op.get("epoch").asInt());
                r.put("epoch", e.map(OffsetAndEpoch::epoch).orElse(-1)); r.put("end", e.map(OffsetAndEpoch::offset).orElse(-1L)); break;
            }
            case "config": {
                op.get("config").fields().forEachRemaining(f -> configMap.put(f.getKey(), f.getValue().asText()));
                log.updateConfig(logConfig(configMap)); break;
            }
            case "state": state(op, r); break;
            case "ls": r.put("files", files()); break;
            default: throw new IllegalArgumentException("unknown op " + name);
        }
        return r;
    }

    void open(JsonNode op, Map<String, Object> r) throws Exception {
        if (log != null) throw new IllegalStateException("already open");
        if (op.has("time")) clock.now = op.get("time").asLong();
        File dir = base.resolve(op.get("dir").asText()).toFile();
        root = dir.getParentFile();
        Files.createDirectories(root.toPath());
        if (op.has("config")) {
            configMap = new TreeMap<>();
            op.get("config").fields().forEachRemaining(f -> configMap.put(f.getKey(), f.getValue().asText()));
        }
        failures = new LogDirFailureChannel(4);
        scheduler = new VirtualScheduler();
        guards.clear();
        tp = UnifiedLog.parseTopicPartitionName(dir);
        CleanShutdownFileHandler flag = new CleanShutdownFileHandler(root.getPath());
        boolean cleanFlag = flag.exists();
        if (cleanFlag) flag.delete();
        boolean clean = op.has("clean") ? op.get("clean").asBoolean() : cleanFlag;
        long recovery = readCheckpoint("recovery-point-offset-checkpoint", "recoveryCheckpointError", r);
        long start = readCheckpoint("log-start-offset-checkpoint", "startCheckpointError", r);
        if (op.has("recovery_point")) recovery = op.get("recovery_point").asLong();
        if (op.has("log_start")) start = op.get("log_start").asLong();
        r.put("clean", clean); r.put("recoveryPointGiven", recovery); r.put("logStartGiven", start);
        Optional<Uuid> topicId = op.has("topic_id") ? Optional.of(Uuid.fromString(op.get("topic_id").asText())) : Optional.empty();
        log = UnifiedLog.create(dir, logConfig(configMap), start, recovery, scheduler, stats, clock,
            op.path("max_txn_timeout_ms").asInt(900000),
            new ProducerStateManagerConfig(op.path("producer_id_expiration_ms").asInt(86400000), op.path("transaction_verification").asBoolean(true)),
            op.path("expiration_check_interval_ms").asInt(600000), failures, clean, topicId);
        ConcurrentMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>();
        logs.put(tp, log);
        manager = new LogCleanerManager(List.of(root), logs, failures);
        leaderEpoch = log.latestEpoch().orElse(0);
        r.put("recoveryPoint", log.recoveryPoint());
        r.put("segments", log.logSegments().stream().map(LogSegment::baseOffset).collect(Collectors.toList()));
    }

    void writeCheckpoints() throws IOException {
        checkpoint("recovery-point-offset-checkpoint").write(Map.of(tp, log.recoveryPoint()));
        writeStartCheckpoint(log.logStartOffset(), log.logSegments().get(0).baseOffset());
    }

    void writeStartCheckpoint(long start, long firstBase) throws IOException {
        checkpoint("log-start-offset-checkpoint").write(start > firstBase ? Map.of(tp, start) : Map.of());
    }

    void close(JsonNode op, Map<String, Object> r) throws Exception {
        if (op.path("clean").asBoolean(true)) {
            log.flush(true);
            scheduler.runDue();
            log.close();
            checkpoint("recovery-point-offset-checkpoint").write(Map.of(tp, log.recoveryPoint()));
            writeStartCheckpoint(log.logStartOffset(), log.logSegments().get(0).baseOffset());
            new CleanShutdownFileHandler(root.getPath()).write(op.path("broker_epoch").asLong(1));
        } else {
            log.closeHandlers();
        }
        log.removeLogMetrics();
        scheduler.queue.clear();
        manager.removeMetrics();
        log = null;
    }

    void damage(JsonNode op, Map<String, Object> r) throws Exception {
        if (log != null) throw new IllegalStateException("log is open");
        Path p = base.resolve(op.get("file").asText());
        if (op.path("delete").asBoolean(false)) { r.put("existed", Files.deleteIfExists(p)); return; }
        if (op.has("rename")) { Files.move(p, base.resolve(op.get("rename").asText()), StandardCopyOption.REPLACE_EXISTING); return; }
        if (op.has("copy")) { Files.copy(p, base.resolve(op.get("copy").asText()), StandardCopyOption.REPLACE_EXISTING); return; }
        try (FileChannel ch = FileChannel.open(p, StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.CREATE)) {
            if (op.has("truncate_by")) ch.truncate(Math.max(0, ch.size() - op.get("truncate_by").asLong()));
            if (op.has("truncate_to")) ch.truncate(op.get("truncate_to").asLong());
            if (op.has("xor")) {
                long pos = op.get("xor").get(0).asLong(); if (pos < 0) pos += ch.size();
                ByteBuffer b = ByteBuffer.allocate(1); ch.read(b, pos);
                b.put(0, (byte) (b.get(0) ^ op.get("xor").get(1).asInt())); b.rewind(); ch.write(b, pos);
            }
            if (op.has("append")) ch.write(ByteBuffer.wrap(Base64.getDecoder().decode(op.get("append").asText())), ch.size());
            r.put("size", ch.size());
        }
    }

    void append(JsonNode op, Map<String, Object> r) throws Exception {
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Base64.getDecoder().decode(op.get("records").asText())));
        String origin = op.path("origin").asText("client");
        int epoch = op.path("leader_epoch").asInt(leaderEpoch);
        LogAppendInfo info;
        if (origin.equals("replication") || origin.equals("follower")) {
            info = log.appendAsFollower(records, epoch);
        } else {
            AppendOrigin o = AppendOrigin.valueOf(origin.toUpperCase(Locale.ROOT));
            VerificationGuard guard = VerificationGuard.SENTINEL;
            String verify = op.path("verify").asText("none");
            if (!verify.equals("none")) {
                // "start" / "start_v2": ask the log for a guard for the first batch of the payload, as the broker does before it
                // asks the transaction coordinator, then append with it. "reuse": append with the last guard given to that producer.
                RecordBatch b = records.batches().iterator().next();
                String key = Long.toString(b.producerId());
                if (verify.equals("reuse")) guard = guards.getOrDefault(key, VerificationGuard.SENTINEL);
                else {
                    guard = log.maybeStartTransactionVerification(b.producerId(), b.baseSequence(), b.producerEpoch(), verify.equals("start_v2"));
                    if (guard != VerificationGuard.SENTINEL) guards.put(key, guard);
                    r.put("guard", guard != VerificationGuard.SENTINEL);
                    if (op.path("verify_only").asBoolean(false)) return;
                }
            }
            info = log.appendAsLeader(records, epoch, o, RequestLocal.noCaching(), guard, (short) op.path("tv").asInt(-1));
        }
        appendResult(info, r);
    }

    void appendResult(LogAppendInfo info, Map<String, Object> r) {
        r.put("firstOffset", info.firstOffset());
        r.put("lastOffset", info.lastOffset());
        r.put("lastLeaderEpoch", info.lastLeaderEpoch().orElse(-1));
        r.put("maxTimestamp", info.maxTimestamp());
        r.put("logAppendTime", info.logAppendTime());
        r.put("appendLogStartOffset", info.logStartOffset());
        r.put("sourceCompression", info.sourceCompression().name);
        r.put("validBytes", info.validBytes());
        r.put("numMessages", info.numMessages());
        r.put("recordsConverted", info.recordValidationStats() == null ? 0 : info.recordValidationStats().numRecordsConverted());
    }

    void endTxn(JsonNode op, Map<String, Object> r) throws Exception {
        EndTransactionMarker marker = new EndTransactionMarker(op.get("commit").asBoolean() ? ControlRecordType.COMMIT : ControlRecordType.ABORT, op.path("coordinator_epoch").asInt(0));
        MemoryRecords records = MemoryRecords.withEndTransactionMarker(clock.now, op.get("pid").asLong(), (short) op.get("epoch").asInt(), marker);
        appendResult(log.appendAsLeader(records, op.path("leader_epoch").asInt(leaderEpoch), AppendOrigin.COORDINATOR, RequestLocal.noCaching(),
            VerificationGuard.SENTINEL, (short) op.path("tv").asInt(1)), r);
    }

    void truncate(JsonNode op, Map<String, Object> r) throws Exception {
        long offset = op.get("offset").asLong();
        boolean beforeActive = offset < log.activeSegment().baseOffset();
        boolean done = log.truncateTo(offset);
        r.put("truncated", done);
        if (beforeActive) manager.maybeTruncateCheckpoint(root, tp, log.activeSegment().baseOffset());
        if (done) checkpoint("recovery-point-offset-checkpoint").write(Map.of(tp, log.recoveryPoint()));
    }

    void truncateFully(JsonNode op, Map<String, Object> r) throws Exception {
        log.truncateFullyAndStartAt(op.get("offset").asLong(), op.has("log_start") ? Optional.of(op.get("log_start").asLong()) : Optional.empty());
        manager.maybeTruncateCheckpoint(root, tp, log.activeSegment().baseOffset());
        checkpoint("recovery-point-offset-checkpoint").write(Map.of(tp, log.recoveryPoint()));
    }

    void deleteRecords(JsonNode op, Map<String, Object> r) {
        // the three checks of the broker's partition layer, then the log's own
        if (!log.config().delete && log.config().compact) throw new PolicyViolationException("Records of partition " + tp + " can not be deleted due to the configured policy");
        long o = op.get("offset").asLong();
        if (o == -1) o = log.highWatermark();
        if (o < 0) throw new OffsetOutOfRangeException("The offset " + o + " for partition " + tp + " is not valid");
        r.put("moved", log.maybeIncrementLogStartOffset(o, LogStartOffsetIncrementReason.ClientRecordDeletion));
    }

    void cleanOnce(JsonNode op, Map<String, Object> r) throws Exception {
        int io = op.path("io_buffer").asInt(524288);
        Optional<LogToClean> pick = manager.grabFilthiestCompactedLog(clock, new PreCleanStats());
        r.put("cleaned", pick.isPresent());
        Map<TopicPartition, Long> last = manager.allCleanerCheckpoints();
        if (pick.isEmpty()) { r.put("checkpoint", last.getOrDefault(tp, -1L)); return; }
        LogToClean c = pick.get();
        r.put("firstDirty", c.firstDirtyOffset()); r.put("firstUncleanable", c.firstUncleanableOffset());
        r.put("cleanBytes", c.cleanBytes()); r.put("cleanableBytes", c.cleanableBytes());
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(op.path("dedupe_bytes").asInt(1 << 20), "MD5"), io, op.path("max_io_buffer").asInt(Math.max(io, 1 << 22)),
            op.path("load_factor").asDouble(0.9), new Throttler(Double.MAX_VALUE, Long.MAX_VALUE, "x", "y", clock), clock, t -> manager.checkCleaningAborted(t));
        long end = c.firstDirtyOffset();
        try {
            Map.Entry<Long, CleanerStats> res = cleaner.clean(c);
            end = res.getKey();
            CleanerStats s = res.getValue();
            r.put("endOffset", end);
            r.put("mapMessagesRead", s.mapMessagesRead()); r.put("messagesRead", s.messagesRead()); r.put("bytesRead", s.bytesRead());
            r.put("messagesWritten", s.messagesWritten()); r.put("bytesWritten", s.bytesWritten()); r.put("invalidMessages", s.invalidMessagesRead());
        } catch (LogCleaningAbortedException e) {
            r.put("aborted", true);
        } catch (Exception e) {
            // the cleaner thread of the broker does the same: the partition is left alone from now on
            manager.markPartitionUncleanable(log.parentDir(), tp);
            throw e;
        } finally {
            manager.doneCleaning(tp, root, end);
        }
        r.put("checkpoint", manager.allCleanerCheckpoints().getOrDefault(tp, -1L));
        r.put("segments", log.logSegments().stream().map(LogSegment::baseOffset).collect(Collectors.toList()));
    }

    void read(JsonNode op, Map<String, Object> r) throws Exception {
        String iso = op.path("isolation").asText("uncommitted");
        FetchIsolation fi = iso.equals("committed") ? FetchIsolation.TXN_COMMITTED : iso.equals("log_end") ? FetchIsolation.LOG_END : FetchIsolation.HIGH_WATERMARK;
        FetchDataInfo d = log.read(op.get("offset").asLong(), op.path("max").asInt(1 << 20), fi, op.path("min_one").asBoolean(true));
        r.put("size", d.records.sizeInBytes());
        r.put("segment", d.fetchOffsetMetadata.segmentBaseOffset); r.put("position", d.fetchOffsetMetadata.relativePositionInSegment);
        r.put("firstEntryIncomplete", d.firstEntryIncomplete);
        if (d.records instanceof FileRecords) {
            ByteBuffer b = ByteBuffer.allocate(d.records.sizeInBytes());
            ((FileRecords) d.records).readInto(b, 0);
            CRC32C crc = new CRC32C(); crc.update(b.duplicate()); r.put("crc32c", crc.getValue());
        }
        List<List<Long>> batches = new ArrayList<>();
        if (op.path("list").asBoolean(true))
            for (RecordBatch b : d.records.batches()) batches.add(List.of(b.baseOffset(), b.lastOffset()));
        r.put("batches", batches);
        if (d.abortedTransactions.isPresent()) {
            List<List<Long>> a = new ArrayList<>();
            for (FetchResponseData.AbortedTransaction t : d.abortedTransactions.get()) a.add(List.of(t.producerId(), t.firstOffset()));
            r.put("aborted", a);
        }
    }

    void offsetForTime(JsonNode op, Map<String, Object> r) {
        Optional<TimestampAndOffset> t = log.fetchOffsetByTimestamp(op.get("ms").asLong(), Optional.empty()).timestampAndOffsetOpt();
        r.put("found", t.isPresent());
        t.ifPresent(x -> { r.put("timestamp", x.timestamp); r.put("offset", x.offset); r.put("leaderEpoch", x.leaderEpoch.orElse(-1)); });
    }

    void state(JsonNode op, Map<String, Object> r) throws Exception {
        r.put("logStartOffset", log.logStartOffset()); r.put("localLogStartOffset", log.localLogStartOffset());
        r.put("logEndOffset", log.logEndOffset()); r.put("lastStableOffset", log.lastStableOffset());
        r.put("highWatermark", log.highWatermark()); r.put("recoveryPoint", log.recoveryPoint());
        r.put("firstUnstableOffset", log.firstUnstableOffset().orElse(-1L));
        r.put("size", log.size());
        List<Object> segs = new ArrayList<>();
        for (LogSegment s : log.logSegments()) {
            Map<String, Object> m = new LinkedHashMap<>();
            m.put("base", s.baseOffset()); m.put("size", s.size());
            try { m.put("nextOffset", s.readNextOffset()); } catch (Exception e) { m.put("nextOffset", e.getClass().getSimpleName()); }
            m.put("maxTimestampSoFar", s.readMaxTimestampAndOffsetSoFar().timestamp()); m.put("offsetOfMaxTimestamp", s.readMaxTimestampAndOffsetSoFar().offset());
            m.put("indexEntries", s.offsetIndex().entries()); m.put("timeIndexEntries", s.timeIndex().entries());
            segs.add(m);
        }
        r.put("segments", segs);
        List<Object> ps = new ArrayList<>();
        new TreeMap<>(log.producerStateManager().activeProducers()).forEach((pid, e) -> {
            Map<String, Object> m = new LinkedHashMap<>();
            m.put("pid", pid); m.put("epoch", (int) e.producerEpoch()); m.put("coordinatorEpoch", e.coordinatorEpoch()); m.put("lastTimestamp", e.lastTimestamp());
            m.put("currentTxnFirstOffset", e.currentTxnFirstOffset().isPresent() ? e.currentTxnFirstOffset().getAsLong() : -1L);
            List<Object> bs = new ArrayList<>();
            for (BatchMetadata b : e.batchMetadata()) bs.add(List.of(b.firstSeq(), b.lastSeq(), b.firstOffset(), b.lastOffset(), b.timestamp()));
            m.put("batches", bs);
            ps.add(m);
        });
        r.put("producers", ps);
        r.put("mapEndOffset", log.latestProducerStateEndOffset());
        List<Object> es = new ArrayList<>();
        log.leaderEpochCache().epochEntries().forEach(e -> es.add(List.of(e.epoch(), e.startOffset())));
        r.put("epochs", es);
        if (op.path("files").asBoolean(true)) r.put("files", files());
    }

    /** name -> [size, crc32c] of every file below the directory that holds the partition directory */
    Map<String, Object> files() throws IOException {
        Map<String, Object> out = new TreeMap<>();
        if (root == null || !root.exists()) return out;
        try (var st = Files.walk(root.toPath())) {
            for (Path p : (Iterable<Path>) st.filter(Files::isRegularFile)::iterator) {
                byte[] b = Files.readAllBytes(p);
                CRC32C c = new CRC32C(); c.update(b);
                out.put(root.toPath().relativize(p).toString(), List.of(b.length, c.getValue()));
            }
        }
        return out;
    }

    // ---------------------------------------------------------------- driver
    String step(String line) throws Exception {
        JsonNode op = M.readTree(line);
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("op", op.get("op").asText());
        Throwable err = null;
        Map<String, Object> r = null;
        try { r = run(op); } catch (Throwable e) { err = e; }
        if (log != null || op.get("op").asText().equals("advance")) scheduler.runDue();
        if (err == null) { out.put("ok", true); out.putAll(r); }
        else {
            out.put("ok", false);
            out.put("error", err.getClass().getSimpleName());
            out.put("message", clean(err.getMessage()));
            if (err instanceof RecordValidationException) {
                RecordValidationException v = (RecordValidationException) err;
                out.put("cause", v.invalidException().getClass().getSimpleName());
                out.put("message", clean(v.invalidException().getMessage()));
                List<Object> l = new ArrayList<>();
                for (ProduceResponse.RecordError re : v.recordErrors()) l.add(Arrays.asList(re.batchIndex, re.message));
                out.put("recordErrors", l);
            } else if (err.getCause() != null) {
                out.put("cause", err.getCause().getClass().getSimpleName());
                out.put("causeMessage", clean(err.getCause().getMessage()));
            }
        }
        if (!scheduler.ran.isEmpty()) { out.put("background", new ArrayList<>(scheduler.ran)); scheduler.ran.clear(); }
        if (log != null)
            out.put("after", Arrays.asList(log.logStartOffset(), log.logEndOffset(), log.highWatermark(), log.lastStableOffset(), log.numberOfSegments()));
        return M.writeValueAsString(out);
    }

    void reset(Path b) {
        if (log != null) { try { log.closeHandlers(); log.removeLogMetrics(); } catch (Throwable ignored) { } }
        log = null; root = null; configMap = new TreeMap<>(); clock = new Clock(); scheduler = new VirtualScheduler(); guards.clear(); leaderEpoch = 0;
        base = b;
    }

    public static void main(String[] a) throws Exception {
        LogOracle o = new LogOracle();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        if (a.length == 2 && a[0].equals("--cases")) {       // a file with one case directory per line
            for (String c : Files.readAllLines(Path.of(a[1]))) {
                if (c.isBlank()) continue;
                Path dir = Path.of(c.trim());
                o.reset(dir);
                List<String> res = new ArrayList<>();
                for (String line : Files.readAllLines(dir.resolve("script.jsonl"))) if (!line.isBlank()) res.add(o.step(line));
                Files.write(dir.resolve("results.jsonl"), res);
                o.reset(dir);
            }
            return;
        }
        o.reset(Path.of(a.length == 2 && a[0].equals("--base") ? a[1] : "."));
        String line;
        while ((line = in.readLine()) != null) {
            if (line.isBlank()) continue;
            if (line.startsWith("{\"base\":")) {             // interactive only: start afresh in another directory
                o.reset(Path.of(M.readTree(line).get("base").asText())); out.println("{}");
            } else out.println(o.step(line));
            out.flush();
        }
    }
}
