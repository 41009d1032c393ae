# A slim image that serves a run on a CPU. First: make wheel
#
#   docker build -t headway --build-arg TORCH_INDEX=ADDRESS .
#   docker run -p 8000:8000 -v $PWD/runs/language-1:/runs/language-1:ro -e HEADWAY_TOKEN=... headway /runs/language-1
FROM python:3.12-slim AS build
COPY build/wheel/*.whl /wheels/
# The index of PyTorch's builds for the CPU, which its installation page names; without it, the image has the libraries
# for GPUs, too, and is many times as large.
ARG TORCH_INDEX=
RUN python -m venv /venv && for wheel in /wheels/*.whl; do \
  /venv/bin/pip install --no-cache-dir ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} "${wheel}[serve]"; done

FROM python:3.12-slim
RUN useradd --create-home --uid 10001 headway
COPY --from=build /venv /venv
USER headway
WORKDIR /home/headway
ENV PATH=/venv/bin:$PATH PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["headway", "serve", "--host", "0.0.0.0"]
