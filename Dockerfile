FROM python:3.11-slim
WORKDIR /app
COPY requirements.lock ./
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY pipeline ./pipeline
COPY manifests ./manifests
COPY workers ./workers
RUN pip install --no-cache-dir --no-deps --no-build-isolation . && useradd --create-home lamina
USER lamina
STOPSIGNAL SIGTERM
ENTRYPOINT ["lamina"]
CMD ["doctor"]
